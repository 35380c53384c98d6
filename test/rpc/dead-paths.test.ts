// A killed peer takes its device along, so processes cannot share a simulated one: here both sides live, and every path dies.
import { VerbmqTransport } from 'verbmq';
import { describe, onTestFinished } from 'vitest';
import { asAuto, autoPair, QUICK } from '../support/auto-pair.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { onSimulatedDevice, resetForTest } from '../support/simulated-device.js';
import { tcpProxy } from '../support/tcp-proxy.js';
import { deadPaths } from './dead-paths.js';

/** A loss that nobody is told of is found by heartbeats. */
const OPTIONS = { heartbeatIntervalMs: 50, peerTimeoutMs: 1000, resumeWindowMs: 200 };

describe('a peer that dies, on auto with a fast path', () => {
  deadPaths(async () => {
    const { client, server, base, fast } = await autoPair({ both: OPTIONS });
    const kill = (): void => {
      fast.cut();
      base.cut();
    };
    return { client, server, kill };
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
        const kill = (): void => {
          proxy.cut();
          device.remove();
        };
        return { client, server, kill };
      });
    },
  );
});
