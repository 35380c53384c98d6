import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { inFull } from '../../scripts/test/scope.mjs';
import { onSimulatedDevice } from '../support/simulated-device.js';
import { buildSelfTest } from './build.mjs';

const run = promisify(execFile);

/** A first build compiles everything, three times as slowly with a sanitizer. */
const BUILD_TIMEOUT_MS = 600_000;

/** The runs with sanitizers belong where the addon is tested with them too, which builds the library with one of them. */
const watching = inFull ? (['asan', 'tsan'] as const) : (['asan'] as const);
const sanitizers = process.env.VERBMQ_ADDON === 'asan' ? watching : (['none'] as const);

/** The self-test brings its own sanitizer. */
const { LD_PRELOAD, ASAN_OPTIONS, LSAN_OPTIONS, UBSAN_OPTIONS, ...environment } = process.env;

/** What the library's sources say of each misuse that they trap. */
async function traps(): Promise<string[]> {
  const folder = new URL('./src/', import.meta.url);
  const sources = (await readdir(folder)).filter((name) => name.endsWith('.cc'));
  const texts = await Promise.all(sources.map((name) => readFile(new URL(name, folder), 'utf8')));
  const calls = texts.join('\n').matchAll(/\bmisuse\((?:lock,\s*)?"([^"]+)"\)/g);
  return [...new Set(Array.from(calls, ([, what]) => what as string))].sort();
}

await onSimulatedDevice('rxe', (device) => {
  describe('the simulated device', () => {
    test.each(sanitizers)(
      'keeps the rules of verbs (self-test, sanitizer: %s)',
      async (sanitizer) => {
        const selfTest = await buildSelfTest({ sanitizer });
        const { stdout } = await run(selfTest, { timeout: BUILD_TIMEOUT_MS, env: environment });
        const passed = stdout.split('\n').filter((line) => line.startsWith('ok '));
        for (const personality of ['rxe', 'siw', 'mlx']) {
          expect(passed).toContain(`ok ${personality}: ping-pong-by-events`);
        }
        const trapped = stdout.split('\n').filter((line) => line.startsWith('trapped: '));
        expect([...new Set(trapped)].sort()).toEqual((await traps()).map((what) => `trapped: ${what}`));
      },
      BUILD_TIMEOUT_MS,
    );

    test('fails a self-test that is not there', async () => {
      const selfTest = await buildSelfTest({ sanitizer: sanitizers[0] });
      await expect(run(selfTest, ['no-such-case'], { env: environment })).rejects.toMatchObject({ code: 1 });
    });

    test('is controlled from JavaScript', () => {
      device.reset('siw');
      expect(device.get('iwarp')).toBe(1);
      device.set('max_cqe', 10);
      expect(device.get('max_cqe')).toBe(10);
      device.reset('rxe');
      expect(device.get('iwarp')).toBe(0);
      expect(device.leftOver()).toEqual({});
      expect(device.count('cq-overruns')).toBe(0);
    });

    test('refuses faults and settings that it does not have', () => {
      expect(() => device.reset('rex' as 'rxe')).toThrow('reset');
      expect(() => device.set('max_cqes', 1)).toThrow('set');
      expect(() => device.failCall('ibv_reg_mrs', 12)).toThrow('fail_call');
      expect(() => device.hold('everything' as 'hardware')).toThrow('hold');
      expect(() => device.live('qps' as 'qp')).toThrow('live');
      expect(() => device.count('sendings' as 'sends')).toThrow('count');
    });
  });
});
