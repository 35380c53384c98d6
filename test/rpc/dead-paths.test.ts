// A killed peer takes its device along, so processes cannot share a simulated one: here both sides live, and every path dies.
import type { AutoConnection } from '@verbmq/core/auto';
import { MemoryTransport } from '@verbmq/core/memory-transport';
import { VerbmqTransport } from 'verbmq';
import { describe, expect, onTestFinished } from 'vitest';
import { deadPaths as deadPathsOfEvents } from '../pubsub/dead-paths.js';
import { deadPaths as deadPathsOfJobs } from '../queue/dead-paths.js';
import { asAuto, autoPair, Cable, onFast, QUICK } from '../support/auto-pair.js';
import { abortAfterTest, connectPair, nextConnection } from '../support/pair.js';
import { onSimulatedDevice, resetForTest } from '../support/simulated-device.js';
import { tcpProxy } from '../support/tcp-proxy.js';
import { memorySetUp } from '../support/transports/memory.js';
import { deadPaths as deadPathsOfCalls, type Killable } from './dead-paths.js';

/** Calls, jobs and events. */
function deadPaths(make: () => Promise<Killable>): void {
  deadPathsOfCalls(make);
  deadPathsOfJobs(make);
  deadPathsOfEvents(make);
}

/** A loss that nobody is told of is found by heartbeats. */
const HEARTBEATS = { heartbeatIntervalMs: 50, peerTimeoutMs: 1000 };
const OPTIONS = { ...HEARTBEATS, resumeWindowMs: 200 };

/** Resolves when both ends are on the fast path, where they still are when they are killed. */
async function killableOnFast(
  client: AutoConnection,
  server: AutoConnection,
  cutAll: () => void,
): Promise<Killable> {
  await Promise.all([onFast(client), onFast(server)]);
  const kill = (): void => {
    expect(client.path.fast).toBe(true);
    cutAll();
  };
  return { client, server, kill };
}

describe('a peer that dies, on memory', () => {
  deadPaths(async () => {
    const cable = new Cable();
    const faulty = {
      ...memorySetUp(),
      createTransport: (options = {}) =>
        new MemoryTransport({ ...options, network: cable.network, faults: cable }),
    };
    return { ...(await connectPair(faulty, { both: HEARTBEATS })), kill: () => cable.cut() };
  });
});

describe('a peer that dies, on auto with a fast path', () => {
  deadPaths(async () => {
    const { client, server, base, fast } = await autoPair({ both: OPTIONS });
    return killableOnFast(client, server, () => {
      fast.cut();
      base.cut();
    });
  });
});

await onSimulatedDevice('rxe', (device) => {
  describe.each(['rxe', 'siw', 'mlx'] as const)(
    'a peer that dies, on TCP with RDMA like %s',
    (personality) => {
      deadPaths(async () => {
        resetForTest(device, personality);
        const make = (): VerbmqTransport => {
          const rdma = { libraries: device.libraries };
          const transport = new VerbmqTransport({ ...QUICK, ...OPTIONS, fastTimeoutMs: 500, rdma });
          onTestFinished(() => transport.close());
          return transport;
        };
        const listener = await make().listen('verbmq://127.0.0.1:0');
        const proxy = await tcpProxy(Number(listener.url.split(':').at(-1)));
        const accepted = nextConnection(listener);
        const client = asAuto(abortAfterTest(await make().connect(`verbmq://127.0.0.1:${proxy.port}`)));
        const server = asAuto(abortAfterTest(await accepted));
        return killableOnFast(client, server, () => {
          proxy.cut();
          device.remove();
        });
      });
    },
  );
});
