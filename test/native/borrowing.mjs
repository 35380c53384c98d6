// Whether a long message is better copied to memory that is registered already, or registered where it lies for as long as it is
// read (BORROW_BYTES in packages/native/src/large-sender.ts). In the guest:
//
//   npm run guest -- --driver rxe -- node test/native/borrowing.mjs [KIB…]
//
// First the two ways alone: the median of many, in turns. Then messages one way, 4 at a time, with all that belongs to them: how
// many a second, and the processor time of both ends, which are in this process; the best of some rounds, in turns. What is shorter
// than the threshold is always copied there. Elsewhere this runs on the simulated device, which shows nothing but that it runs.
import { createRequire } from 'node:module';
import { formatAddress } from '../../packages/core/dist/index.js';
import { resolveConnectionOptions } from '../../packages/core/dist/transport-kit/index.js';
import { MemoryUse } from '../../packages/native/dist/binding.js';
import { connectOnce } from '../../packages/native/dist/connect-attempt.js';
import { BORROW_BYTES } from '../../packages/native/dist/large-sender.js';
import { loadAddon } from '../../packages/native/dist/load-addon.js';
import { resolveRdmaOptions } from '../../packages/native/dist/options.js';
import { RdmaEngine } from '../../packages/native/dist/rdma-engine.js';
import { RdmaListener } from '../../packages/native/dist/rdma-listener.js';

const KIB = 1024;
const DEFAULT_KIB = [64, 128, 256, 512, 768, 1024, 2048, 4096];
/** Of one way alone; they take turns. */
const REPETITIONS = 101;
const ROUNDS = 3;
const IN_FLIGHT = 4;
const BYTES_A_ROUND = 64 * KIB * KIB;
/** So many that no processor's cache holds what is copied next. */
const SOURCES = 16;

async function librariesOf() {
  if (process.env.VERBMQ_RDMA_ADDRESS !== undefined) return {};
  const { build } = await import('../simulated-verbs/build.mjs');
  const { library, control } = await build();
  createRequire(import.meta.url)(control).call(library, 'reset', 'mlx');
  return { ibverbs: library, rdmacm: library };
}

/** Both ends of one connection, and the engine of the one that sends. */
async function connectedPair(libraries) {
  const host = process.env.VERBMQ_RDMA_ADDRESS ?? '127.0.0.1';
  const options = resolveConnectionOptions({ heartbeatIntervalMs: 0, highWaterMarkBytes: 4 * KIB * KIB });
  const makeEngine = () => new RdmaEngine(loadAddon().addon, resolveRdmaOptions({ libraries }));
  const [engine, serverEngine] = [makeEngine(), makeEngine()];
  const handle = serverEngine.native.listen({ host, port: 0, backlog: 1 });
  const address = serverEngine.native.listenerAddress(handle);
  const accepted = new Promise((opened) => {
    const url = formatAddress('rdma', address);
    const { logger } = options;
    new RdmaListener({ kind: 'rdma', address, url, logger, engine: serverEngine, handle, options, opened });
  });
  const client = await connectOnce({
    ...address,
    engine,
    localHost: undefined,
    timeoutMs: 10_000,
    options,
    signal: new AbortController().signal,
    opened: () => {},
  });
  return { client, server: await accepted, engine, serverEngine };
}

function timedMicros(work) {
  const start = process.hrtime.bigint();
  work();
  return Number(process.hrtime.bigint() - start) / 1000;
}

const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];

/** Microseconds to register and deregister memory that is in use already, and to copy it. */
function aloneMicros({ client, engine }, bytes) {
  const { handle } = client;
  const sources = Array.from({ length: SOURCES }, () => new Uint8Array(bytes).fill(1));
  const target = new Uint8Array(bytes).fill(1);
  const pinned = engine.registerMemory(handle, target.buffer, 0, bytes, MemoryUse.remoteRead);
  const registering = [];
  const copying = [];
  for (let n = 0; n < REPETITIONS; n++) {
    const source = sources[n % SOURCES];
    registering.push(
      timedMicros(() => {
        const { region } = engine.registerMemory(handle, source.buffer, 0, bytes, MemoryUse.remoteRead);
        engine.deregisterMemory(handle, region);
      }),
    );
    copying.push(timedMicros(() => target.set(sources[(n + SOURCES / 2) % SOURCES])));
  }
  engine.deregisterMemory(handle, pinned.region);
  return [median(registering), median(copying)];
}

/** One round of messages: how many a second, and the processor's microseconds for each. */
async function sendRound({ client, server }, sources, count) {
  let left = count;
  const arrived = new Promise((resolve) => {
    let received = 0;
    const detach = server.onMessage(() => {
      if (++received < count) return;
      detach();
      resolve();
    });
  });
  const cpu = process.cpuUsage();
  const start = performance.now();
  const lane = async (n) => {
    while (left-- > 0) await client.send(sources[n]);
  };
  await Promise.all([...Array.from({ length: IN_FLIGHT }, (_, n) => lane(n)), arrived]);
  const { user, system } = process.cpuUsage(cpu);
  return { perSecond: (count / (performance.now() - start)) * 1000, cpuMicros: (user + system) / count };
}

/** The best rounds with memory that may be lent, and with memory that may not, since it could be resized. */
async function sentBoth(pair, bytes) {
  const sourcesOf = (makeBuffer) =>
    Array.from({ length: IN_FLIGHT }, () => new Uint8Array(makeBuffer(), 0, bytes).fill(1));
  const kinds = {
    lent: sourcesOf(() => new ArrayBuffer(bytes)),
    copied: sourcesOf(() => new ArrayBuffer(bytes, { maxByteLength: bytes })),
  };
  const best = {};
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [kind, sources] of Object.entries(kinds)) {
      const result = await sendRound(pair, sources, Math.ceil(BYTES_A_ROUND / bytes));
      if (round === 0) continue; // to warm up
      const { perSecond = 0, cpuMicros = Number.POSITIVE_INFINITY } = best[kind] ?? {};
      best[kind] = {
        perSecond: Math.max(perSecond, result.perSecond),
        cpuMicros: Math.min(cpuMicros, result.cpuMicros),
      };
    }
  }
  return best;
}

const pair = await connectedPair(await librariesOf());
const lengths = process.argv.length > 2 ? process.argv.slice(2).map(Number) : DEFAULT_KIB;
console.log(
  '| KiB | registering, µs | copying, µs | lent: messages/s | CPU, µs | copied: messages/s | CPU, µs |',
);
console.log('| --- | --- | --- | --- | --- | --- | --- |');
for (const kib of lengths) {
  const bytes = kib * KIB;
  const { lent, copied } = await sentBoth(pair, bytes);
  const ofLent = bytes < BORROW_BYTES ? ['', ''] : [lent.perSecond, lent.cpuMicros];
  const figures = [...aloneMicros(pair, bytes), ...ofLent, copied.perSecond, copied.cpuMicros];
  const cells = figures.map((figure) => (figure === '' ? '' : Math.round(figure).toLocaleString('en')));
  console.log(`| ${[kib.toLocaleString('en'), ...cells].join(' | ')} |`);
}
await pair.client.close();
pair.engine.close();
pair.serverEngine.close();
