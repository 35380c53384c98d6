import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { simulatedDevice } from '../support/simulated-device.js';
import { build } from './build.mjs';

const run = promisify(execFile);

/** A first build compiles everything, twice as slowly with a sanitizer. */
const BUILD_TIMEOUT_MS = 300_000;

describe('the simulated device', () => {
  test.each(['none', 'asan', 'tsan'] as const)(
    'keeps the rules of verbs (self-test, sanitizer: %s)',
    async (sanitizer) => {
      const { selfTest } = await build({ sanitizer });
      const { stdout } = await run(selfTest, { timeout: BUILD_TIMEOUT_MS });
      const passed = stdout.split('\n').filter((line) => line.startsWith('ok '));
      for (const personality of ['rxe', 'siw', 'mlx']) {
        expect(passed).toContain(`ok ${personality}: ping-pong-by-events`);
      }
    },
    BUILD_TIMEOUT_MS,
  );

  test('fails a self-test that is not there', async () => {
    const { selfTest } = await build();
    await expect(run(selfTest, ['no-such-case'])).rejects.toMatchObject({ code: 1 });
  });

  test(
    'is controlled from JavaScript',
    async () => {
      const device = await simulatedDevice('siw');
      expect(device.get('iwarp')).toBe(1);
      device.set('max_cqe', 10);
      expect(device.get('max_cqe')).toBe(10);
      device.reset('rxe');
      expect(device.get('iwarp')).toBe(0);
      expect(device.leftOver()).toEqual({});
      expect(device.count('cq-overruns')).toBe(0);
    },
    BUILD_TIMEOUT_MS,
  );

  test('refuses faults and settings that it does not have', async () => {
    const device = await simulatedDevice('rxe');
    expect(() => device.reset('rex' as 'rxe')).toThrow('reset');
    expect(() => device.set('max_cqes', 1)).toThrow('set');
    expect(() => device.failCall('ibv_reg_mrs', 12)).toThrow('fail_call');
    expect(() => device.hold('everything' as 'hardware')).toThrow('hold');
    expect(() => device.live('qps' as 'qp')).toThrow('live');
    expect(() => device.count('sendings' as 'sends')).toThrow('count');
  });
});
