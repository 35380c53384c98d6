/**
 * The guest tool as its users see it: `node test/vm/guest.mjs … -- COMMAND`. Each test boots once, and checks all that
 * one boot can show.
 */

import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

const checkout = fileURLToPath(new URL('../..', import.meta.url));
const tools = join(checkout, 'test/vm');
const tool = join(tools, 'guest.mjs');
/** The user `nobody` of Debian and Ubuntu, and its group. */
const nobody = { uid: 65534, gid: 65534 };

/** One ping over RDMA from the guest to its own address, by librdmacm's own tool. */
const pingOverRdma = `
rping -s -a $VERBMQ_RDMA_ADDRESS -C 1 & server=$!
until rdma resource show cm_id | grep -q LISTEN; do :; done
rping -c -v -a $VERBMQ_RDMA_ADDRESS -C 1 && wait $server && echo pinged
`;

const RUN_OF_AN_ORDINARY_USER = 'pwd; echo kept >"$VERBMQ_GUEST_OUT/file"; exit 4';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'verbmq-guest-test-'));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

interface Outcome {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the tool. `onOutput` sees everything printed so far whenever more comes. */
function guest(
  args: string[],
  script: string,
  {
    environment = {},
    user = {},
    program = tool,
    cwd = checkout,
    onOutput,
  }: {
    environment?: NodeJS.ProcessEnv;
    user?: { uid?: number; gid?: number };
    program?: string;
    cwd?: string;
    onOutput?: (text: string, signal: (name: 'SIGINT') => void) => void;
  } = {},
): Promise<Outcome> {
  const child = spawn(process.execPath, [program, ...args, '--', '/bin/sh', '-c', script], {
    ...user,
    cwd,
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    onOutput?.(stdout, (name) => child.kill(name));
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (status) => resolve({ status, stdout, stderr }));
  });
}

test('rxe: output streams, Ctrl-C reaches the command, its status and files come back', async () => {
  let interrupted = false;
  const outcome = await guest(
    ['--driver', 'rxe', '--quick', '--out', directory, '--env', 'GREETING=good day'],
    `
    pwd; rdma link show; ulimit -l; echo "$VERBMQ_TEST $GREETING"; ${pingOverRdma}
    cat /sys/devices/system/clocksource/clocksource0/current_clocksource
    grep -q -w erms /proc/cpuinfo && echo "copies by bytes" || echo "copies by words"
    trap 'mkdir "$VERBMQ_GUEST_OUT/sub"; echo "written after the signal" >"$VERBMQ_GUEST_OUT/sub/file"; exit 7' INT
    echo "on stderr" >&2
    echo waiting
    sleep 600 & wait
    `,
    {
      environment: { VERBMQ_TEST: "it's handed on" },
      // The output has to arrive while the command runs: nothing else ends it.
      onOutput(text, signal) {
        if (text.includes('waiting\n') && !interrupted) {
          interrupted = true;
          signal('SIGINT');
        }
      },
    },
  );
  expect(outcome.stderr).toContain('on stderr\n');
  expect(outcome.stdout.split('\n')).toEqual([
    checkout.replace(/\/$/, ''),
    expect.stringMatching(/^link rxe0\/1 state ACTIVE/),
    'unlimited',
    "it's handed on good day",
    expect.stringMatching(/^ping data: rdma-ping-0/),
    'pinged',
    expect.stringMatching(/^(tsc|kvm-clock)$/), // both are read without a system call
    outcome.stdout.includes('\ntsc\n') ? 'copies by words' : expect.stringMatching(/^copies by /),
    'waiting',
    '',
  ]);
  expect(outcome.status).toBe(7);
  expect(readFileSync(join(directory, 'sub/file'), 'utf8')).toBe('written after the signal\n');
});

test('siw: a listener and its client in one network namespace; --memlock limits root too', async () => {
  const outcome = await guest(
    ['--driver', 'siw', '--quick', '--memlock', '64'],
    `
    rdma link show; ulimit -l; ${pingOverRdma}
    ib_send_lat -R -s 1000000 & server=$!
    until rdma resource show cm_id | grep -q LISTEN; do kill -0 $server || break; done
    ib_send_lat -R -s 1000000 $VERBMQ_RDMA_ADDRESS; echo "client ended with $?"
    `,
  );
  expect(outcome.stdout).toMatch(/^link siw0\/1 state ACTIVE.*\n64\n/);
  expect(outcome.stdout).toContain('pinged\n');
  expect(outcome.stdout).toMatch(/client ended with [1-9]/);
  expect(outcome.stderr).toContain("Couldn't allocate MR");
});

test('none: no RDMA device; a command that hangs is ended in time, its processes are named, its files come back', async () => {
  const outcome = await guest(
    ['--driver', 'none', '--quick', '--timeout', '8', '--out', directory],
    `
    test -e /dev/infiniband || echo "no device"; ls -A /sys/class/infiniband; echo kept >"$VERBMQ_GUEST_OUT/file"
    trap '' TERM INT; setsid sleep 4321 & sleep 1234; sleep 1234
    `,
  );
  expect(outcome.status).toBe(124);
  expect(outcome.stdout).toBe('no device\n');
  expect(outcome.stderr).toContain('its time limit of 8 s is over');
  expect(outcome.stderr).toMatch(/ {2}\| +\d+ +\d+ \S+ +sleep 1234\n/);
  expect(outcome.stderr).toMatch(/sleep 4321/);
  expect(readFileSync(join(directory, 'file'), 'utf8')).toBe('kept\n');
});

test('a guest whose kernel panics is reported with the words of the kernel', async () => {
  const outcome = await guest(['--driver', 'none'], 'echo before; echo c >/proc/sysrq-trigger; sleep 600');
  expect(outcome.status).toBe(125);
  expect(outcome.stderr).toMatch(/^guest: the guest's kernel gave up: .*Kernel panic.*sysrq triggered crash/);
  expect(outcome.stderr).toContain("the guest's console:");
  expect(outcome.stderr).toContain('sysrq_handle_crash');
});

test('two hosts: the cable between them is cut and restored, the network beside it stays', async () => {
  // A host tells the other how far it is by answering on the network that stays.
  const outcome = await guest(
    ['--hosts', '2', '--driver', 'rxe', '--quick', '--out', directory],
    `
    echo "$VERBMQ_GUEST_ROLE $VERBMQ_RDMA_ADDRESS to $VERBMQ_RDMA_PEER_ADDRESS"
    echo "$VERBMQ_GUEST_ROLE" >"$VERBMQ_GUEST_OUT/role"
    answers() { /run/verbmq-guest/busybox ping -c 1 -W 3 "$1" >/dev/null; }
    carrier() { until [ "$(cat /sys/class/net/eth0/carrier)" = "$1" ]; do :; done; echo "$VERBMQ_GUEST_ROLE carrier $1"; }
    if [ "$VERBMQ_GUEST_ROLE" = a ]; then
      until answers "$VERBMQ_LAN_PEER_ADDRESS"; do :; done
      node test/vm/cable.mjs cut && carrier 0
      while answers "$VERBMQ_LAN_PEER_ADDRESS"; do :; done
      node test/vm/cable.mjs restore && carrier 1
    else
      carrier 0
      answers "$VERBMQ_LAN_PEER_ADDRESS" && echo "b still reaches a"
      /bin/ip link set eth1 down
      carrier 1
      until answers "$VERBMQ_RDMA_PEER_ADDRESS"; do :; done
      echo "b reaches a again"
      exit 3
    fi
    `,
  );
  const lines = outcome.stdout.split('\n');
  const from = (role: string) => lines.filter((line) => line.startsWith(`[${role}]`));
  expect(from('a')).toEqual(['[a] a 10.77.0.1 to 10.77.0.2', '[a] a carrier 0', '[a] a carrier 1']);
  expect(from('b')).toEqual([
    '[b] b 10.77.0.2 to 10.77.0.1',
    '[b] b carrier 0',
    '[b] b still reaches a',
    '[b] b carrier 1',
    '[b] b reaches a again',
  ]);
  expect(outcome.status).toBe(3);
  for (const role of ['a', 'b']) {
    expect(readFileSync(join(directory, role, 'role'), 'utf8')).toBe(`${role}\n`);
  }
});

test('an ordinary user boots it too, once its packages are there', async (context) => {
  if (process.getuid?.() !== 0) return context.skip('an ordinary user runs all of these tests');
  if (spawnSync(process.execPath, ['--version'], nobody).status !== 0) {
    return context.skip(`the user nobody may not run ${process.execPath}`);
  }
  // A checkout that this user may read and write: the tool, which needs nothing else, and the kernel as it is cached.
  const own = join(directory, 'checkout');
  const cache = join(directory, 'cache');
  cpSync(tools, join(own, 'test/vm'), { recursive: true });
  cpSync(join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'verbmq'), join(cache, 'verbmq'), {
    recursive: true,
    filter: (path) => !path.includes('building-'),
  });
  mkdirSync(join(directory, 'out'));
  const chown = spawnSync('chown', ['-R', `${nobody.uid}:${nobody.gid}`, directory]);
  expect(chown.status, String(chown.stderr)).toBe(0);
  const outcome = await guest(
    ['--driver', 'none', '--out', join(directory, 'out')],
    RUN_OF_AN_ORDINARY_USER,
    {
      user: nobody,
      program: join(own, 'test/vm/guest.mjs'),
      cwd: own,
      environment: { HOME: directory, XDG_CACHE_HOME: cache },
    },
  );
  expect(outcome.stdout, outcome.stderr).toBe(`${own}\n`);
  expect(outcome.status).toBe(4);
  expect(readFileSync(join(directory, 'out/file'), 'utf8')).toBe('kept\n');
});

test('a machine without the packages: they are named', async () => {
  // Stand-ins for dpkg, which knows of no package, and apt-get, which installs none.
  for (const [name, script] of [
    ['dpkg-query', 'exit 1'],
    ['apt-get', 'echo "apt-get $*" >&2; exit 1'],
  ] as const) {
    const path = join(directory, name);
    writeFileSync(path, `#!/bin/sh\n${script}\n`);
    chmodSync(path, 0o755);
  }
  const outcome = await guest([], 'true', { environment: { PATH: `${directory}:${process.env.PATH}` } });
  expect(outcome.status).toBe(125);
  expect(outcome.stderr).toMatch(/apt-get install -y --no-install-recommends qemu-system-x86 .*perftest/);
});

test('a mistake in the command line is explained', async () => {
  const outcome = await guest(['--driver', 'mlx5'], 'true');
  expect(outcome.status).toBe(125);
  expect(outcome.stderr).toContain('--driver is one of rxe, siw, none, not mlx5');
  expect(outcome.stderr).toContain('usage: npm run guest');
});
