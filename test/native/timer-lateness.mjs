#!/usr/bin/env node
// How late a timer is on a loop that polls, at full load, on the simulated device:
//
//   npx -p node@24 node test/native/timer-lateness.mjs [SECONDS]
//
// A timer of 10 ms runs while eight connections, whose ends are both in this process, carry 64 messages of 64 bytes each at
// any time. How late it is, the machine has a part in: whenever it gives the processor to somebody else. What polling has in it
// is the processor time of a turn of the loop: a timer that is due waits for the end of the turn, and no longer. So both are
// printed. Node tells the processor time of a thread from version 24 on.
import { createRequire } from 'node:module';
import { createHistogram, performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { RdmaTransport } from '@verbmq/native';
import { build } from '../simulated-verbs/build.mjs';

const PERIOD_MS = 10;
const ALLOWED_MS = 5;
const CONNECTIONS = 8;
const IN_FLIGHT = 64;
/** V8 compiles what runs often within that time. */
const WARM_UP_MS = 2000;

/** Milliseconds in microseconds, as histograms want them. */
const micros = (ms) => 1 + Math.max(0, Math.round(ms * 1000));
const processorMs = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

/** Looks at a timer and at the turns of the loop, until it is stopped. */
class Watch {
  late = createHistogram();
  turns = createHistogram();
  /** Ticks, and turns, beyond what is allowed. */
  lateTicks = 0;
  longTurns = 0;
  #tickAt = performance.now();
  #turnAt = processorMs();
  #timer = setInterval(() => this.#tick(), PERIOD_MS);
  #immediate = setImmediate(() => this.#turn());

  #tick() {
    const now = performance.now();
    const lateMs = now - this.#tickAt - PERIOD_MS;
    this.late.record(micros(lateMs));
    if (lateMs > ALLOWED_MS) this.lateTicks++;
    this.#tickAt = now;
  }

  #turn() {
    const now = processorMs();
    this.turns.record(micros(now - this.#turnAt));
    if (now - this.#turnAt > ALLOWED_MS) this.longTurns++;
    this.#turnAt = now;
    this.#immediate = setImmediate(() => this.#turn());
  }

  stop() {
    clearInterval(this.#timer);
    clearImmediate(this.#immediate);
    return this;
  }
}

/** Messages that go round without end. */
async function startLoad(options) {
  const transport = new RdmaTransport(options);
  const server = new RdmaTransport(options);
  const listener = await server.listen({ host: '127.0.0.1', port: 0 });
  let received = 0;
  const echo = (connection) => {
    connection.onMessage((message) => {
      received++;
      connection.send(message.data).catch(() => {}); // the end of the measurement
    });
  };
  listener.onConnection(echo);
  for (let n = 0; n < CONNECTIONS; n++) {
    const connection = await transport.connect(listener.url);
    echo(connection);
    for (let i = 0; i < IN_FLIGHT; i++) await connection.send(new Uint8Array(64));
  }
  const end = () => Promise.all([transport.close(), server.close()]);
  return { received: () => received, end };
}

if (process.threadCpuUsage === undefined) {
  console.error(
    'this Node does not tell the processor time of a thread: use Node 24 (npx -p node@24 node …)',
  );
  process.exit(2);
}
const seconds = Number(process.argv[2] ?? 10);
const { library, control } = await build();
createRequire(import.meta.url)(control).call(library, 'reset', 'mlx');
const libraries = { ibverbs: library, rdmacm: library };

const rows = {};
for (const polling of ['no traffic', 'event', 'adaptive', 'busy']) {
  const load = polling === 'no traffic' ? undefined : await startLoad({ libraries, polling });
  await sleep(WARM_UP_MS);
  const before = load?.received() ?? 0;
  const watch = new Watch();
  await sleep(seconds * 1000);
  const { late, turns, lateTicks, longTurns } = watch.stop();
  const messages = (load?.received() ?? 0) - before;
  const ms = (histogram, percentile) => Number((histogram.percentile(percentile) / 1000).toFixed(2));
  rows[polling] = {
    'messages/s': Math.round(messages / seconds),
    'late p50': ms(late, 50),
    'late p99': ms(late, 99),
    'late max': ms(late, 100),
    'late > 5 ms': `${lateTicks} of ${late.count}`,
    'turn p50': ms(turns, 50),
    'turn p99.9': ms(turns, 99.9),
    'turn max': ms(turns, 100),
    'turns > 5 ms': `${longTurns} of ${turns.count}`,
  };
  await load?.end();
}
console.log(`a timer of ${PERIOD_MS} ms, and the processor time of a turn of the loop, in ms`);
console.table(rows);
