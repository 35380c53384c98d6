import { describe, expect, test } from 'vitest';
import { autoPair, leaveAndReturn, onBase, onFast, pathIs } from '../support/auto-pair.js';
import { autoSimulatedPair } from '../support/auto-simulated-pair.js';
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
          await onBase(client);
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
        const { client, server } = await autoSimulatedPair(device);
        const kinds: string[] = [];
        client.onPath(({ kind, flowing }) => flowing && kinds.at(-1) !== kind && kinds.push(kind));
        await expectNothingLost(
          {
            client,
            server,
            move: leaveAndReturn(
              client,
              () => device.remove(),
              () => device.restore(),
            ),
          },
          7,
        );
        expect(kinds.filter((kind) => kind === 'rdma').length).toBeGreaterThanOrEqual(3);
      },
    );
  });
});
