// node bench/instructions/count.mjs [--starts N] [--functions]: how many instructions JavaScript executes for a message over `rdma` and over
// `auto`, in N starts of each, 3 unless said; with `--functions`, of which functions in the last start. The numbers are per message: one is sent
// and one received. They hold the loop that stands for the addon, which is the same for both. Nothing is timed, so the machine may
// be busy. Needs qemu-user and gcc (Debian: `apt-get install qemu-user gcc`), and what `npx tsc -b` has built.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ROUND_TRIPS = 5000;
const SHOWN_FUNCTIONS = 25;
const here = fileURLToPath(new URL('.', import.meta.url));
const { values } = parseArgs({
  options: { starts: { type: 'string', default: '3' }, functions: { type: 'boolean', default: false } },
});
const directory = mkdtempSync(path.join(tmpdir(), 'verbmq-count-'));
const plugin = path.join(directory, 'counter.so');
const counts = path.join(directory, 'counts');
/** What lies where, in the last start. */
let functions = [];

try {
  execFileSync('gcc', ['-shared', '-fPIC', '-O2', '-o', plugin, path.join(here, 'counter.c')]);
  for (const kind of ['rdma', 'auto']) {
    for (let start = 0; start < Number(values.starts); start++) count(kind);
    if (values.functions) printFunctions();
  }
} finally {
  rmSync(directory, { recursive: true });
}

function count(kind) {
  const node = [
    process.execPath,
    '--perf-basic-prof',
    path.join(here, 'loop.mjs'),
    kind,
    String(ROUND_TRIPS),
  ];
  const { error, status, stderr, pid } = spawnSync('qemu-x86_64', ['-plugin', plugin, ...node], {
    env: { ...process.env, COUNTS: counts },
    encoding: 'utf8',
  });
  // What V8 says of where its code lies, in the place where perf(1) looks for it.
  const map = `/tmp/perf-${pid}.map`;
  if (error !== undefined || status !== 0) throw new Error(error?.message ?? stderr);
  functions = readFunctions(readFileSync(map, 'utf8'));
  rmSync(map);
  const total = sumOf(readBlocks());
  console.log(
    `${kind}: ${text(total.instructions)} instructions, ${text(total.blocks)} blocks, ${text(total.indirect)} indirect jumps`,
  );
}

function readBlocks() {
  return readFileSync(counts, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => {
      const [address, instructions, executions, indirect] = line.split(' ');
      return {
        address: Number.parseInt(address, 16),
        instructions: Number(instructions) * Number(executions),
        blocks: Number(executions),
        indirect: Number(indirect) * Number(executions),
      };
    });
}

function sumOf(blocks) {
  const sum = { instructions: 0, blocks: 0, indirect: 0 };
  for (const block of blocks)
    for (const what of Object.keys(sum)) sum[what] += block[what] / (2 * ROUND_TRIPS);
  return sum;
}

function readFunctions(map) {
  return map
    .trimEnd()
    .split('\n')
    .map((line) => /^([0-9a-f]+) ([0-9a-f]+) (.*)$/.exec(line))
    .filter((match) => match !== null)
    .map(([, at, bytes, code]) => ({
      from: Number.parseInt(at, 16),
      to: Number.parseInt(at, 16) + Number.parseInt(bytes, 16),
      name: code.replace(/file:\S*\/(packages|bench)\//, '$1/'),
    }));
}

function printFunctions() {
  // The code of a function is moved: what was written last counts.
  const nameOf = ({ address }) =>
    functions.findLast(({ from, to }) => address >= from && address < to)?.name ?? 'C++ and built-in code';
  const byName = new Map();
  for (const block of readBlocks()) {
    const name = nameOf(block);
    byName.set(name, [...(byName.get(name) ?? []), block]);
  }
  const sums = [...byName].map(([name, blocks]) => ({ name, ...sumOf(blocks) }));
  for (const { name, instructions, indirect } of sums
    .sort((a, b) => b.instructions - a.instructions)
    .slice(0, SHOWN_FUNCTIONS))
    console.log(`${text(instructions).padStart(8)} ${text(indirect).padStart(6)}  ${name}`);
}

function text(number) {
  return number.toFixed(1);
}
