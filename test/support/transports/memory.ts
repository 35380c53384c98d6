import { MemoryNetwork, MemoryTransport } from '@verbmq/core/memory-transport';
import type { SetUp } from '../set-up.js';

export function memorySetUp(): SetUp {
  const network = new MemoryNetwork();
  let names = 0;
  return {
    kind: 'memory',
    capabilities: {
      oneSided: 'emulated',
      atomics: 'emulated',
      largeMessages: 'native',
      zeroCopySend: 'native',
    },
    boundaries: [64 * 1024, 1024 * 1024],
    unreadBytes: 1024 * 1024,
    crossesProcesses: false,
    peer: { module: '@verbmq/core/memory-transport', name: 'MemoryTransport', options: {} },
    createTransport: (options) => new MemoryTransport({ ...options, network }),
    listenAddress: () => ({ path: `name-${++names}` }),
    deadAddress: () => ({ path: 'nobody' }),
  };
}
