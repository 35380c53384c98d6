// How long adaptive polling should go on after the last completion (`spinMicros`): round trips of 64 bytes, and what they cost the
// processors. In the guest:
//
//   npm run guest -- --driver rxe -- node test/native/spin-times.mjs [MICROSECONDS…]
//
// The client sends the next message at once, or pauses before it: long spins pay where a message comes in them, and are wasted
// where none does. For each time there are two processes on two cores, which sleep while another time has its turn. Times and
// pauses take turns, and of each the median round is printed.
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { RdmaTransport } from '../../packages/native/dist/index.js';
import { answerCommands, startTwo } from './two-processes.mjs';

const THIS = fileURLToPath(import.meta.url);
const DEFAULT_MICROS = [0, 100, 300, 1000, 3000];
const PAUSES_MS = [0, 1, 5];
const BYTES = 64;
const WARM_UP_MS = 2500;
const MEASURED_MS = 1000;
const ROUNDS = 5;

/** One of the two processes. */
function serve(spinMicros) {
  const transport = new RdmaTransport({ spinMicros, polling: 'adaptive', heartbeatIntervalMs: 0 });
  let connection;
  let answered;
  answerCommands({
    async listen() {
      const listener = await transport.listen({ host: process.env.VERBMQ_RDMA_ADDRESS, port: 0 });
      listener.onConnection((accepted) => {
        accepted.onMessage(({ data }) => accepted.trySend(data));
      });
      return listener.url;
    },
    async connect(url) {
      connection = await transport.connect(url);
      connection.onMessage(() => answered());
    },
    async roundTrips({ pauseMs, durationMs }) {
      const message = new Uint8Array(BYTES);
      const times = [];
      for (const end = performance.now() + durationMs; performance.now() < end; ) {
        const answer = new Promise((resolve) => {
          answered = resolve;
        });
        const start = performance.now();
        connection.trySend(message);
        await answer;
        times.push(performance.now() - start);
        if (pauseMs > 0) await delay(pauseMs);
      }
      return { count: times.length, p50Micros: percentile(times, 0.5) * 1000 };
    },
  });
}

function percentile(list, part) {
  return list.sort((a, b) => a - b)[Math.floor(list.length * part)];
}

async function measure(ends, pauseMs) {
  const before = await ends.cpuMicros();
  const { count, p50Micros } = await ends.askClient('roundTrips', { pauseMs, durationMs: MEASURED_MS });
  return { p50Micros, cpuMicros: ((await ends.cpuMicros()) - before) / count };
}

const [first, ...rest] = process.argv.slice(2);
if (first === 'serve') {
  serve(Number(rest[0]));
} else {
  const times = first === undefined ? DEFAULT_MICROS : [first, ...rest].map(Number);
  const candidates = [];
  for (const spinMicros of times) {
    const ends = startTwo(THIS, ['serve', String(spinMicros)]);
    await ends.askClient('connect', await ends.askServer('listen'));
    await ends.askClient('roundTrips', { pauseMs: 0, durationMs: WARM_UP_MS });
    candidates.push({ spinMicros, ends, samples: PAUSES_MS.map(() => []) });
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (const [at, pauseMs] of PAUSES_MS.entries()) {
      for (const { ends, samples } of candidates) samples[at].push(await measure(ends, pauseMs));
    }
  }
  const columns = PAUSES_MS.map((pauseMs) => `pause ${pauseMs} ms: p50, µs | CPU of both, µs`);
  console.log(`| spinMicros | ${columns.join(' | ')} |`);
  console.log(`| --- | ${PAUSES_MS.map(() => '--- | ---').join(' | ')} |`);
  for (const { spinMicros, samples } of candidates) {
    const medianOf = (list, key) =>
      Math.round(
        percentile(
          list.map((sample) => sample[key]),
          0.5,
        ),
      );
    const cells = samples.flatMap((list) => [medianOf(list, 'p50Micros'), medianOf(list, 'cpuMicros')]);
    console.log(`| ${[spinMicros, ...cells].map((cell) => cell.toLocaleString('en')).join(' | ')} |`);
  }
  for (const { ends } of candidates) await ends.end();
}
