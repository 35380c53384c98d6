// Builds the addon where that is possible. RDMA is optional, so a machine without a compiler or without the headers
// still installs the package; the reason is written down for probe() to tell.
//
//   node scripts/install.mjs [--required] [--sanitize] [--output DIRECTORY]
//
// --required   exit with 1 when the addon could not be built
// --sanitize   build with AddressSanitizer and UndefinedBehaviorSanitizer, into build-asan/
// --output     build into this directory of the package instead of build/
//
// Nothing is done when the sources are those of the last build. N-API is stable, so one build serves every Node.js.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const packageDirectory = dirname(dirname(fileURLToPath(import.meta.url)));
const sanitize = process.argv.includes('--sanitize');
const required = process.argv.includes('--required');
const output = process.argv.includes('--output')
  ? (process.argv[process.argv.indexOf('--output') + 1] ?? 'build')
  : sanitize
    ? 'build-asan'
    : 'build';
const outputDirectory = join(packageDirectory, output);
const recordFile = join(outputDirectory, 'verbmq-build.json');
const require = createRequire(import.meta.url);

/** One build at a time in one directory: the loser of a race finds the winner's build. */
function withLock(body) {
  const lock = join(outputDirectory, 'verbmq-build.lock');
  mkdirSync(outputDirectory, { recursive: true });
  for (;;) {
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' });
      break;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
      if (holderIsGone(lock)) rmSync(lock, { force: true });
      else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
    }
  }
  try {
    body();
  } finally {
    rmSync(lock, { force: true });
  }
}

function holderIsGone(lock) {
  try {
    process.kill(Number(readFileSync(lock, 'utf8')) || process.pid, 0);
    return false;
  } catch (error) {
    return error.code === 'ESRCH';
  }
}

function main() {
  const stamp = stampOfSources();
  const previous = readRecord();
  if (previous?.stamp === stamp && previous.built) return report('the addon is up to date', true);

  const obstacle = findObstacle();
  if (obstacle !== undefined) return giveUp(stamp, obstacle);

  const directory = output === 'build' ? packageDirectory : prepareDirectory();
  const links = mkdtempSync(join(tmpdir(), 'verbmq-build-'));
  let failure;
  try {
    failure = build(directory, links);
  } finally {
    rmSync(links, { recursive: true, force: true });
  }
  if (failure !== undefined) {
    if (required) process.stderr.write(failure);
    return giveUp(stamp, { reason: 'the addon did not compile', detail: failure.slice(-4000) });
  }
  writeRecord({ built: true, stamp });
  report('the addon was built', true);
}

/** Answers with what was said, where it failed. */
function build(directory, links) {
  const gyp = require.resolve('node-gyp/bin/node-gyp.js');
  const headers = nodeHeaders();
  const nodedir = headers === undefined ? [] : ['--nodedir', plainPath(headers, links)];
  const common = ['--directory', directory, ...nodedir];
  // Not asked for in binding.gyp: the Node.js that runs this need not be the PATH's, nor be called `node`.
  const addonApi = relative(directory, dirname(require.resolve('node-addon-api/package.json')));
  const variables = [`-Dnode_addon_api=${plainPath(addonApi, links, directory)}`];
  if (sanitize) variables.push('-Dverbmq_sanitize=1');
  for (const step of [
    ['configure', ...common, '--', ...variables],
    ['build', ...common, '--jobs', 'max'],
  ]) {
    const run = spawnSync(process.execPath, [gyp, ...step], { encoding: 'utf8' });
    if (run.status !== 0) return `${run.stdout ?? ''}${run.stderr ?? ''}`;
  }
  return undefined;
}

/** The same, or a link to it in `links`: make takes a path with a space in it for two. */
function plainPath(path, links, from = '/') {
  if (/^[\w@%+=,./-]+$/.test(path)) return path;
  const link = join(links, String(readdirSync(links).length));
  symlinkSync(resolve(from, path), link);
  return link;
}

/** What is missing for a build, if anything, with its remedy. */
function findObstacle() {
  if (process.platform !== 'linux') {
    return { reason: `RDMA verbs exist on Linux only, this is ${process.platform}` };
  }
  const packages = 'on Debian and Ubuntu: apt-get install g++ make python3 libibverbs-dev librdmacm-dev';
  const compiler = process.env.CXX ?? 'g++';
  for (const [command, what] of [
    [compiler, 'a C++ compiler'],
    ['make', 'make'],
    ['python3', 'python3'],
  ]) {
    const found = spawnSync(command, ['--version'], { encoding: 'utf8' });
    if (found.status !== 0) return { reason: `${what} (${command}) is missing`, remedy: packages };
  }
  const included = '#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n';
  const headers = spawnSync(compiler, ['-fsyntax-only', '-x', 'c++', '-'], {
    input: included,
    encoding: 'utf8',
  });
  if (headers.status !== 0) {
    return { reason: 'the headers of libibverbs and librdmacm are missing', remedy: packages };
  }
  return undefined;
}

/** Where the headers of the running Node.js are, so that they need not be downloaded. */
function nodeHeaders() {
  const prefix = dirname(dirname(process.execPath));
  return existsSync(join(prefix, 'include', 'node', 'node_api.h')) ? prefix : undefined;
}

/** node-gyp always builds beside the binding.gyp: a directory that looks like the package keeps builds apart. */
function prepareDirectory() {
  for (const name of ['binding.gyp', 'cpp']) {
    const link = join(outputDirectory, name);
    rmSync(link, { force: true });
    symlinkSync(join(packageDirectory, name), link);
  }
  return outputDirectory;
}

function stampOfSources() {
  const hash = createHash('sha256');
  const add = (file) =>
    hash
      .update(file)
      .update('\0')
      .update(readFileSync(join(packageDirectory, file)));
  add('binding.gyp');
  add(join('scripts', 'install.mjs'));
  for (const entry of readdirSync(join(packageDirectory, 'cpp'), { recursive: true }).sort()) {
    if (/\.(cc|h)$/.test(entry)) add(join('cpp', entry));
  }
  hash.update(require('node-addon-api/package.json').version);
  return hash.digest('hex');
}

function readRecord() {
  try {
    return JSON.parse(readFileSync(recordFile, 'utf8'));
  } catch {
    return undefined;
  }
}

function writeRecord(record) {
  writeFileSync(recordFile, `${JSON.stringify(record, null, 2)}\n`);
}

function giveUp(stamp, { reason, remedy, detail }) {
  writeRecord({ built: false, stamp, reason, remedy, detail });
  report(
    `the addon was not built, RDMA is not available: ${reason}${remedy === undefined ? '' : `; ${remedy}`}`,
    false,
  );
  if (required) process.exitCode = 1;
}

function report(text, good) {
  (good ? process.stdout : process.stderr).write(`@verbmq/native: ${text}\n`);
}

withLock(main);
