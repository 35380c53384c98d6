// Whether a message of some length is better copied into a slot, or announced and read from where it lies: messages one way, out
// of buffers of `allocate`, each length once with slots of the default size and once with slots that it fits. In the guest:
//
//   npm run guest -- -- node test/native/message-sizes.mjs [BYTES…]
//
// Needs a built benchmark and two cores: one for each process. The two kinds of slots take turns.
import { fileURLToPath } from 'node:url';
import { verbmqPush } from '../../bench/dist/contestants/verbmq-push.js';
import { runPush } from '../../bench/dist/run/push-load.js';
import { RdmaTransport } from '../../packages/native/dist/index.js';
import { answerCommands, startTwo } from './two-processes.mjs';

const THIS = fileURLToPath(import.meta.url);
const DEFAULT_LENGTHS = [8, 16, 32, 64].map((kib) => kib * 1024);
const HEADER_BYTES = 16;
const WARM_UP_MS = 2500;
const MEASURED_MS = 1500;
const ROUNDS = 2;

/** One of the two processes. */
function serve(slotBytes) {
  const host = process.env.VERBMQ_RDMA_ADDRESS;
  const contestant = verbmqPush(
    () => new RdmaTransport({ slotBytes }),
    () => ({ host, port: 0 }),
  );
  let client;
  answerCommands({
    listen: async () => (await contestant.listen()).address,
    connect: async (address) => {
      client = await contestant.connect(address);
    },
    push: (spec) => runPush(client, spec),
  });
}

async function measure(bytes, slotBytes) {
  const ends = startTwo(THIS, ['serve', String(slotBytes)]);
  await ends.askClient('connect', await ends.askServer('listen'));
  await ends.askClient('push', { bytes, durationMs: WARM_UP_MS });
  const before = await ends.cpuMicros();
  const { messages, elapsedMs } = await ends.askClient('push', { bytes, durationMs: MEASURED_MS });
  const cpuMicrosPerMessage = ((await ends.cpuMicros()) - before) / messages;
  await ends.end();
  return { messagesPerSecond: (messages / elapsedMs) * 1000, cpuMicrosPerMessage };
}

const best = (samples, key, pick) => Math.round(pick(...samples.map((sample) => sample[key])));

const [first, ...rest] = process.argv.slice(2);
if (first === 'serve') {
  serve(Number(rest[0]));
} else {
  const lengths = first === undefined ? DEFAULT_LENGTHS : [first, ...rest].map(Number);
  console.log('bytes      in a slot: messages/s, CPU µs      read: messages/s, CPU µs');
  for (const bytes of lengths) {
    const inSlot = [];
    const read = [];
    for (let round = 0; round < ROUNDS; round++) {
      inSlot.push(await measure(bytes, Math.ceil((bytes + HEADER_BYTES) / 64) * 64));
      read.push(await measure(bytes, 4096));
    }
    const row = [inSlot, read].flatMap((samples) => [
      best(samples, 'messagesPerSecond', Math.max),
      best(samples, 'cpuMicrosPerMessage', Math.min),
    ]);
    console.log([bytes, ...row].map((figure) => String(figure).padStart(14)).join(''));
  }
}
