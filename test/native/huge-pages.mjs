// What large memory costs on small pages and on huge ones. Without an RDMA device: to write to it for the first time. With one: to
// expose it, which registers it, and to revoke that. As root, because it says for the whole machine whether huge pages are given;
// without one, where that is `madvise` already, as anybody.
//
//   node test/native/huge-pages.mjs [MIB…]
//   npm run guest -- --memory 6144 -- node test/native/huge-pages.mjs [MIB…]
//
// Both kinds take turns, each time in memory that was mapped for it. The last column proves which pages were used.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { RdmaTransport } from '../../packages/native/dist/index.js';
import { loadAddon } from '../../packages/native/dist/load-addon.js';

const THIS = fileURLToPath(import.meta.url);
const SETTING = '/sys/kernel/mm/transparent_hugepage/enabled';
const MIB = 1024 * 1024;
const DEFAULT_MIB = [1, 4, 16, 64];
const ROUNDS = 21;
/** What is freed leaves with the garbage collector's own thread. */
const SWEEP_MS = 30;
/** Keeps glibc from raising the length from which on it maps memory: else what was freed once is given again. */
const ALWAYS_MAPPED = { GLIBC_TUNABLES: `glibc.malloc.mmap_threshold=${MIB / 8}` };
const KINDS = ['small', 'huge'];

const setting = () => /\[(\w+)\]/.exec(readFileSync(SETTING, 'utf8'))[1];

function hugeKib() {
  return Number(/^AnonHugePages:\s+(\d+)/m.exec(readFileSync('/proc/self/smaps_rollup', 'utf8'))?.[1]);
}

/** Microseconds that `work` took, and what it answered. */
function timed(work) {
  const start = process.hrtime.bigint();
  const result = work();
  return { result, micros: Number(process.hrtime.bigint() - start) / 1000 };
}

/** Memory is allocated and, on huge pages, the kernel asked for them; then it is written to. */
function firstWrite() {
  const { addon } = loadAddon();
  return async (kind, bytes) => {
    const memory = new ArrayBuffer(bytes);
    if (kind === 'huge') addon.preferHugePages(memory);
    const before = hugeKib();
    const { micros: write } = timed(() => new Uint8Array(memory).fill(1));
    return { write, hugeMib: (hugeKib() - before) / 1024 };
  };
}

async function registration(host) {
  const transport = new RdmaTransport();
  const listener = await transport.listen({ host, port: 0 });
  const [, connection] = await Promise.all([
    new Promise((resolve) => listener.onConnection(resolve)),
    transport.connect(listener.address),
  ]);
  return async (kind, bytes) => {
    writeFileSync(SETTING, kind === 'huge' ? 'madvise' : 'never');
    const before = hugeKib();
    const exposing = timed(() => connection.expose(bytes, { write: true }));
    const owned = await exposing.result;
    const hugeMib = (hugeKib() - before) / 1024;
    const revoking = timed(() => owned.revoke());
    await revoking.result;
    return { expose: exposing.micros, revoke: revoking.micros, hugeMib };
  };
}

async function measure(once, bytes) {
  const samples = new Map(KINDS.map((kind) => [kind, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const kind of round % 2 === 0 ? KINDS : KINDS.toReversed()) {
      samples.get(kind).push(await once(kind, bytes));
      globalThis.gc();
      await delay(SWEEP_MS);
    }
  }
  return samples;
}

/** The least and the median. */
function figure(samples, key) {
  const sorted = samples.map((sample) => sample[key]).sort((a, b) => a - b);
  return [sorted[0], sorted[Math.floor(ROUNDS / 2)]].map((value) => value.toFixed(0)).join(' / ');
}

async function run(lengths) {
  const host = process.env.VERBMQ_RDMA_ADDRESS;
  const once = host === undefined ? firstWrite() : await registration(host);
  const columns = [...(host === undefined ? ['write'] : ['expose', 'revoke']), 'hugeMib'];
  const print = (cells) => console.log(cells.map((cell) => String(cell).padStart(18)).join(''));
  print(['MiB', 'pages', ...columns]);
  for (const mib of lengths) {
    for (const [kind, samples] of await measure(once, mib * MIB)) {
      print([mib, kind, ...columns.map((key) => figure(samples, key))]);
    }
  }
  process.exit();
}

const [first, ...rest] = process.argv.slice(2);
if (first === 'run') {
  await run(rest.map(Number));
} else {
  const before = setting();
  const lengths = first === undefined ? DEFAULT_MIB : [first, ...rest];
  console.log(`huge pages: ${before}; times are microseconds, the least / the median of ${ROUNDS}`);
  // Where it says `always`, all of it would be huge.
  if (before !== 'madvise') writeFileSync(SETTING, 'madvise');
  const args = ['--expose-gc', THIS, 'run', ...lengths.map(String)];
  const { status } = spawnSync(process.execPath, args, {
    env: { ...process.env, ...ALWAYS_MAPPED },
    stdio: 'inherit',
  });
  if (setting() !== before) writeFileSync(SETTING, before);
  process.exitCode = status ?? 1;
}
