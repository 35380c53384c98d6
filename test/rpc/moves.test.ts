import { VerbmqTransport } from 'verbmq';
import { describe, expect, onTestFinished, test } from 'vitest';
import { asAuto, autoPair, onBase, onFast, pathIs, QUICK } from '../support/auto-pair.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { onSimulatedDevice, type Personality, resetForTest } from '../support/simulated-device.js';
import { expectNothingLost } from './moves.js';

describe('calls, jobs and events on auto', () => {
  test('go on when messages move from the base to the fast path and back', async () => {
    const { client, server, fast } = await autoPair();
    const kinds = new Set<boolean>();
    client.onPath((path) => path.flowing && kinds.add(path.fast));
    await expectNothingLost(
      {
        client,
        server,
        move: async () => {
          await onFast(client);
          fast.breakOnce();
          await pathIs(client, (path) => !path.fast && path.flowing);
        },
      },
      10,
    );
    expect(kinds.size).toBe(2);
  });

  test('go on when the session is resumed after the base was lost, alone or with the fast path', async () => {
    for (const policy of ['tcp', 'prefer-rdma'] as const) {
      const { client, server, base, fast } = await autoPair({ both: { policy } });
      let resumed = 0;
      await expectNothingLost(
        {
          client,
          server,
          move: async () => {
            const { length } = base.attempts;
            if (policy === 'prefer-rdma') await onFast(client);
            fast.breakOnce();
            base.breakOnce();
            await pathIs(client, (path) => !path.flowing);
            await (policy === 'prefer-rdma' ? onFast(client) : onBase(client));
            resumed += base.attempts.length - length;
          },
        },
        8,
      );
      expect(resumed).toBeGreaterThan(0);
    }
  });
});

await onSimulatedDevice('rxe', (device) => {
  describe('calls, jobs and events on TCP and RDMA (simulated)', () => {
    test.each(['rxe', 'siw', 'mlx'] satisfies Personality[])(
      'go on when a device like %s is removed and comes back',
      async (personality) => {
        resetForTest(device, personality);
        const make = (): VerbmqTransport => {
          const rdma = { libraries: device.libraries };
          const transport = new VerbmqTransport({ ...QUICK, fastTimeoutMs: 500, rdma });
          onTestFinished(() => transport.close());
          return transport;
        };
        const listener = await make().listen('verbmq://127.0.0.1:0');
        const accepted = nextConnection(listener);
        const client = asAuto(abortAfterTest(await make().connect(listener.url)));
        const server = asAuto(abortAfterTest(await accepted));
        const kinds: string[] = [];
        client.onPath(({ kind, flowing }) => flowing && kinds.at(-1) !== kind && kinds.push(kind));
        await expectNothingLost(
          {
            client,
            server,
            move: async (round) => {
              if (round % 2 === 0) {
                await onFast(client);
                return;
              }
              device.remove();
              await pathIs(client, (path) => !path.fast && path.flowing);
              device.restore();
            },
          },
          7,
        );
        expect(kinds.filter((kind) => kind === 'rdma').length).toBeGreaterThanOrEqual(3);
      },
    );
  });
});
