import type { PathInfo } from 'verbmq';
import { describe, expect, test } from 'vitest';
import { acrossAMove } from '../support/across-a-move.js';
import { onFast, pathIs } from '../support/auto-pair.js';
import { autoSimulatedPair } from '../support/auto-simulated-pair.js';
import { streamsBetween } from '../support/numbered-stream.js';
import {
  CompletionStatus,
  onSimulatedDevice,
  type Personality,
  resetForTest,
} from '../support/simulated-device.js';
import { errno } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

await onSimulatedDevice('rxe', (device) => {
  async function pair(maxBytes = 20_000) {
    const { client, server } = await autoSimulatedPair(device);
    return { client, server, ...streamsBetween(client, server, maxBytes) };
  }

  describe.each(['rxe', 'siw', 'mlx'] satisfies Personality[])('auto on a device like %s', (personality) => {
    test('moves to RDMA, leaves it when the device is removed, and returns when it is back', async () => {
      resetForTest(device, personality);
      const { client, traffic, progress } = await pair();
      const kinds: string[] = [];
      client.onPath(({ kind, flowing }: PathInfo) => flowing && kinds.at(-1) !== kind && kinds.push(kind));
      for (let round = 0; round < 3; round++) {
        await onFast(client);
        await progress(50);
        device.remove();
        await pathIs(client, ({ fast, flowing }) => !fast && flowing);
        await progress(50);
        device.restore();
      }
      await onFast(client);
      await Promise.all(traffic.map((stream) => stream.finish()));
      expect(kinds.filter((kind) => kind === 'rdma').length).toBeGreaterThanOrEqual(3);
      expect(client.path).toEqual({ kind: 'rdma', fast: true, flowing: true });
    });

    test('survives work that fails in the middle of traffic', async () => {
      resetForTest(device, personality);
      const { client, traffic, progress } = await pair();
      for (let round = 0; round < 10; round++) {
        await onFast(client);
        await progress(Math.floor(Math.random() * 30));
        const left = pathIs(client, ({ fast }) => !fast);
        // It may be work of a connection that has been left already.
        while (client.path.fast) {
          device.failWork(CompletionStatus.retriesExceeded, Math.floor(Math.random() * 20));
          await Promise.race([left, progress(50)]);
        }
      }
      await onFast(client);
      await Promise.all(traffic.map((stream) => stream.finish()));
    });

    test('leaves a path that is lost before the device has let go of it', async () => {
      resetForTest(device, personality);
      const { client, traffic, progress } = await pair();
      await onFast(client);
      await progress(20);
      const blocksMs = 3000;
      device.set('destroy_blocks_us', blocksMs * 1000);
      const from = performance.now();
      const left = pathIs(client, ({ fast, flowing }) => !fast && flowing);
      while (client.path.fast) {
        device.failWork(CompletionStatus.retriesExceeded);
        await Promise.race([left, progress(50)]);
      }
      await progress(50);
      expect(performance.now() - from).toBeLessThan(blocksMs);
      device.set('destroy_blocks_us', 0);
      await Promise.all(traffic.map((stream) => stream.finish()));
    });

    test('leaves a path that cannot take a frame, and loses none', async () => {
      resetForTest(device, personality);
      const { client, traffic, progress } = await pair(1 << 20);
      await onFast(client);
      device.failCall('ibv_reg_mr', errno.ENOMEM, { times: -1 });
      await pathIs(client, ({ fast, flowing }) => !fast && flowing);
      await progress(50);
      await Promise.all(traffic.map((stream) => stream.finish()));
    });

    acrossAMove(async (options) => {
      resetForTest(device, personality);
      const { client, server } = await autoSimulatedPair(device, options);
      return { client, server, breakFast: () => device.remove(), mend: () => device.restore() };
    });

    test('gives back every verbs object of the paths that it has left', async () => {
      resetForTest(device, personality);
      const { client, server, traffic, progress } = await pair();
      await onFast(client);
      const before = device.live('qp');
      for (let round = 0; round < 5; round++) {
        await progress(10);
        const left = pathIs(client, ({ fast }) => !fast);
        while (client.path.fast) {
          device.failWork(CompletionStatus.fatal);
          await Promise.race([left, progress(50)]);
        }
        await onFast(client);
      }
      await Promise.all(traffic.map((stream) => stream.finish()));
      await until(() => device.live('qp') <= before);
      await Promise.all([client.close(), server.closed]);
      await until(() => device.live('qp') === 0);
    });
  });
});
