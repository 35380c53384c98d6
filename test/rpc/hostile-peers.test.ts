import { describe, expect, test } from 'vitest';
import { connectPair } from '../support/pair.js';
import { onSimulatedDevice } from '../support/simulated-device.js';
import { simulatedSetUp } from '../support/simulated-pair.js';
import { autoOverMemorySetUp } from '../support/transports/auto.js';
import { memorySetUp } from '../support/transports/memory.js';
import { tcpSetUp } from '../support/transports/tcp.js';
import { hostilePeers } from './hostile-peers.js';

describe.each([
  ['memory', memorySetUp()],
  ['TCP', tcpSetUp()],
  ['auto on its fast path', autoOverMemorySetUp('both')],
] as const)('peers over %s', (_, setUp) => hostilePeers(setUp));

await onSimulatedDevice('rxe', (device) => {
  const setUp = simulatedSetUp(device);
  describe('peers over simulated RDMA (rxe)', () => {
    test('are read where the device has put what they sent', async () => {
      const { client: raw, server: far } = await connectPair(setUp);
      const places: string[] = [];
      far.receiveDirectly({
        received: (_, token) => places.push(`elsewhere ${token}`),
        receivedAt: (memory, at, bytes) =>
          places.push(Buffer.from(memory.bytes.subarray(at, at + bytes)).toString()),
      });
      far.onMessage(() => places.push('elsewhere'));
      await raw.send(Buffer.from('hello'));
      await expect.poll(() => places).toEqual(['hello']);
    });

    hostilePeers(setUp);
  });
});
