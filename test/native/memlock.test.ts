// A process that may not pin what a connection needs, as one with the limit that many systems set: on either side.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { onSimulatedDevice, type Personality, TESTED_PERSONALITIES } from '../support/simulated-device.js';

const pinched = fileURLToPath(new URL('./children/pinched.mjs', import.meta.url));
const LIMIT_KIB = '4096';

/** Root may pin whatever it likes, unless it gives that up. */
const isRoot = process.getuid?.() === 0;
const SETPRIV = '/usr/bin/setpriv';
const asUser = isRoot ? `${SETPRIV} --inh-caps=-ipc_lock --bounding-set=-ipc_lock` : '';

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(TESTED_PERSONALITIES)(
    'a limit of locked memory over a device like %s',
    (personality) => {
      test('is named where it stops a connection, with what to do, and stops nothing else', async (context) => {
        if (isRoot && !existsSync(SETPRIV)) context.skip(`there is no ${SETPRIV}`);
        const arguments_ = [pinched, device.libraries.ibverbs, device.control, personality];
        const command = `ulimit -l "$0" && exec ${asUser} "$@"`;
        const { stdout } = await promisify(execFile)(
          '/bin/sh',
          ['-c', command, LIMIT_KIB, process.execPath, ...arguments_],
          { env: { ...process.env, ASAN_OPTIONS: `${process.env.ASAN_OPTIONS ?? ''}:detect_leaks=0` } },
        );
        const named = {
          code: 'ERR_VERBMQ_MEMLOCK',
          message: expect.stringMatching(
            /may lock only 4096 KiB.*`ulimit -l unlimited`.*LimitMEMLOCK=infinity/,
          ),
        };
        expect(JSON.parse(stdout)).toEqual({
          connecting: named,
          // The peer is told that it was refused, and the listener's log why.
          accepting: { code: 'ERR_VERBMQ_OVERLOADED', message: expect.stringContaining('no memory') },
          refusals: [named],
          accepted: 0,
          failed: 1,
          later: { text: '1 2 3' },
          left: [],
        });
      });
    },
  );
});
