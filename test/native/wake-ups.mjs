// Where the time goes when a process sleeps until a message comes: what the kernel traces between its being woken and its
// next sleep, for an echo of 64 bytes. In the guest:
//
//   npm run guest -- -- node test/native/wake-ups.mjs [CONTESTANT…]
//
// CONTESTANT: rdma-event, net, … of the benchmark, or c-event (perftest's ib_send_lat -e). Without any, these three. Needs root,
// x86, and a built benchmark. For each process it prints the steps that most of its wake-ups consist of, with the median of each in
// microseconds. Tracing takes a few microseconds a step, so compare steps with steps, and not with what the benchmark says.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { EchoPair } from '../../bench/dist/run/echo-pair.js';

const TRACING = '/sys/kernel/tracing';
const EVENTS = [
  'sched/sched_waking',
  'sched/sched_switch',
  'raw_syscalls/sys_enter',
  'raw_syscalls/sys_exit',
];
const SYSCALLS = {
  0: 'read',
  1: 'write',
  7: 'poll',
  16: 'ioctl',
  20: 'writev',
  228: 'clock_gettime',
  281: 'epoll_pwait',
};
const TRACED_MS = 600;
const PORT = '18600';

const write = (file, text) => writeFileSync(`${TRACING}/${file}`, text);
const trace = () => readFileSync(`${TRACING}/trace`, 'utf8');
const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];

/** Counts of the trace's clock, the processor's counter, in a microsecond. */
function calibrate() {
  write('trace_clock', 'x86-tsc');
  write('trace', '');
  write('tracing_on', '1');
  const start = performance.now();
  write('trace_marker', 'start');
  while (performance.now() - start < 300);
  const end = performance.now();
  write('trace_marker', 'end');
  write('tracing_on', '0');
  const [from, to] = [...trace().matchAll(/ (\d+): tracing_mark_write/g)].map(([, count]) => Number(count));
  return (to - from) / (end - start) / 1000;
}

function traceFrom(pids) {
  write('trace', '');
  write('buffer_size_kb', '16384');
  write('set_event_pid', pids.join(' '));
  for (const event of EVENTS) write(`events/${event}/enable`, '1');
  write('tracing_on', '1');
}

/** What happened to each process: [count, what], in order. */
function stepsOf(pids) {
  const steps = new Map(pids.map((pid) => [pid, []]));
  const field = (text, name) => Number(new RegExp(`\\b${name}=(\\d+)`).exec(text)?.[1]);
  for (const line of trace().split('\n')) {
    const match = /-(\d+)\s+\[\d+\].*?\s(\d+): (\w+): (.*)$/.exec(line);
    if (match === null) continue;
    const [, pid, count, event, text] = match;
    const add = (to, what) => steps.get(to)?.push([Number(count), what]);
    if (event === 'sched_waking') add(field(text, 'pid'), 'woken');
    if (event === 'sched_switch') {
      add(field(text, 'prev_pid'), 'off the core');
      add(field(text, 'next_pid'), 'on the core');
    }
    const call = /NR (\d+)/.exec(text)?.[1];
    if (event === 'sys_enter') add(Number(pid), `${SYSCALLS[call] ?? `call ${call}`} (`);
    if (event === 'sys_exit') add(Number(pid), `${SYSCALLS[call] ?? `call ${call}`} )`);
  }
  return steps;
}

/** From each time that it was woken to the next. */
function wakeUpsOf(steps) {
  const wakeUps = [];
  for (const step of steps) {
    if (step[1] === 'woken') wakeUps.push([step]);
    else wakeUps.at(-1)?.push(step);
  }
  return wakeUps.slice(0, -1);
}

function print(name, pids, countsPerMicrosecond) {
  for (const [pid, steps] of stepsOf(pids)) {
    const wakeUps = wakeUpsOf(steps);
    const byShape = groupBy(wakeUps, shapeOf);
    const [alike] = [...byShape.values()].sort((a, b) => b.length - a.length);
    if (alike === undefined) throw new Error(`process ${pid} of ${name} was not woken`);
    console.log(
      `\n${name}, process ${pid}: ${alike.length} of ${wakeUps.length} wake-ups, µs since the step before`,
    );
    for (let i = 1; i < alike[0].length; i++) {
      const micros = median(alike.map((wakeUp) => wakeUp[i][0] - wakeUp[i - 1][0])) / countsPerMicrosecond;
      console.log(`${micros.toFixed(1).padStart(8)}  ${alike[0][i][1]}`);
    }
  }
}

function shapeOf(wakeUp) {
  return wakeUp.map(([, what]) => what).join();
}

function groupBy(list, keyOf) {
  const groups = new Map();
  for (const one of list) groups.set(keyOf(one), [...(groups.get(keyOf(one)) ?? []), one]);
  return groups;
}

async function traceTool(countsPerMicrosecond) {
  const command = ['ib_send_lat', '-R', '-F', '-p', PORT, '-s', '64', '-n', '20000', '-e'];
  const server = spawn('taskset', ['-c', '1', 'stdbuf', '-oL', ...command], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(server.stdout, 'data');
  await delay(1000); // it says that it waits a moment before it does
  const client = spawn('taskset', ['-c', '0', ...command, process.env.VERBMQ_RDMA_ADDRESS], {
    stdio: 'ignore',
  });
  const ended = Promise.all([once(client, 'close'), once(server, 'close')]);
  await delay(2000);
  traceFrom([server.pid, client.pid]);
  await delay(TRACED_MS);
  write('tracing_on', '0');
  await ended;
  print('c-event', [server.pid, client.pid], countsPerMicrosecond);
}

async function traceContestant(name, countsPerMicrosecond) {
  const pair = await EchoPair.start(name, { placement: 'core-each' });
  try {
    // V8 compiles what has run often.
    await pair.load({ bytes: 64, inFlight: 16, durationMs: 4000 });
    await pair.load({ bytes: 64, inFlight: 1, durationMs: 3000 });
    const { pid } = process;
    const pids = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number);
    traceFrom(pids);
    await pair.load({ bytes: 64, inFlight: 1, durationMs: TRACED_MS });
    write('tracing_on', '0');
    print(name, pids, countsPerMicrosecond);
  } finally {
    await pair.stop();
  }
}

if (!existsSync(`${TRACING}/trace`))
  spawnSync('mount', ['-t', 'tracefs', 'none', TRACING], { stdio: 'inherit' });
const countsPerMicrosecond = calibrate();
const named = process.argv.slice(2);
for (const name of named.length > 0 ? named : ['c-event', 'rdma-event', 'net']) {
  if (name === 'c-event') await traceTool(countsPerMicrosecond);
  else await traceContestant(name, countsPerMicrosecond);
}
