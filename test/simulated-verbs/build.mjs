// Builds the simulated verbs library, its control addon and its self-test with the machine's g++.
//
// `node test/simulated-verbs/build.mjs [--asan | --tsan]` is quick when nothing has changed. `build()` and `buildSelfTest()` are for tests.
// Of rdma-core only the headers are used; nothing is linked against it.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

// A run of Node under a sanitizer loads that into every child; the compiler is no part of the test.
const { LD_PRELOAD, ...environment } = process.env;
const run = (command, options) => promisify(execFile)(command, options, { env: environment });
const here = path.dirname(fileURLToPath(import.meta.url));

const common = [
  '-std=c++17',
  '-g1',
  '-O1',
  '-fPIC',
  '-Wall',
  '-Wextra',
  '-Werror',
  `-I${here}/include`,
  `-I${here}/src`,
];
const sanitizers = {
  none: [],
  asan: ['-fsanitize=address,undefined', '-fno-sanitize-recover=undefined', '-fno-omit-frame-pointer'],
  tsan: ['-fsanitize=thread'],
};

const outputOf = (sanitizer) => path.join(here, 'build', sanitizer);
const libraryOf = (sanitizer) => path.join(outputOf(sanitizer), 'libsimulated-verbs.so');

/**
 * Compiles what has changed and returns the paths of the results. Test files that start together wait for one build.
 * @param {{sanitizer?: 'none' | 'asan' | 'tsan'}} [options]
 * @returns {Promise<{library: string, control: string}>}
 */
export async function build({ sanitizer = 'none' } = {}) {
  return await locked(sanitizer, buildLibrary);
}

/**
 * The same for the self-test, and the library that it tests.
 * @param {{sanitizer?: 'none' | 'asan' | 'tsan'}} [options]
 * @returns {Promise<string>} its path
 */
export async function buildSelfTest({ sanitizer = 'none' } = {}) {
  return await locked(sanitizer, async (flags, output, library) => {
    await buildLibrary(flags, output, library);
    return await linkSelfTest(flags, output, library);
  });
}

async function locked(sanitizer, make) {
  const output = outputOf(sanitizer);
  await mkdir(output, { recursive: true });
  const unlock = await lock(path.join(output, 'lock'));
  try {
    return await make([...common, ...sanitizers[sanitizer]], output, libraryOf(sanitizer));
  } finally {
    await unlock();
  }
}

async function headersOfLibrary() {
  const own = (await sourcesIn('src')).filter((name) => name.endsWith('.h'));
  return await contents([...own, ...(await sourcesIn('include'))]);
}

async function buildLibrary(flags, output, library) {
  const control = path.join(output, 'control.node');
  const sources = await sourcesIn('src');
  const ofLibrary = sources.filter((name) => name.endsWith('.cc') && !name.endsWith('control_napi.cc'));
  const headerText = await headersOfLibrary();
  const objects = await inParallel(ofLibrary, (source) => compile(source, flags, headerText, output));
  await link(
    library,
    ['-shared', '-Wl,-z,nodelete', '-Wl,-z,defs', ...objects, '-lpthread', '-ldl'],
    flags,
    objects,
  );

  const napi = await compile(path.join(here, 'src/control_napi.cc'), flags, headerText, output);
  await link(control, ['-shared', napi, '-ldl'], flags, [napi]);
  return { library, control };
}

async function linkSelfTest(flags, output, library) {
  const selfTest = path.join(output, 'self-test');
  const tests = (await sourcesIn('self-test')).filter((name) => name.endsWith('.cc'));
  const testHeaders = (await sourcesIn('self-test')).filter((name) => name.endsWith('.h'));
  const testText = (await headersOfLibrary()) + (await contents(testHeaders));
  const testObjects = await inParallel(tests, (source) => compile(source, flags, testText, output));
  await link(selfTest, [...testObjects, library, `-Wl,-rpath,${output}`, '-lpthread'], flags, [
    ...testObjects,
    library,
  ]);
  return selfTest;
}

/** Takes a lock file, or waits while the process that is named in it lives. */
async function lock(file) {
  for (;;) {
    try {
      await writeFile(file, String(process.pid), { flag: 'wx' });
      return () => rm(file, { force: true });
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
      const owner = Number(await readFile(file, 'utf8').catch(() => ''));
      if (owner > 0 && !isAlive(owner)) await rm(file, { force: true });
      else await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/**
 * @returns {Promise<string | undefined>} what this machine lacks for a build, in words
 */
export async function obstacle() {
  // Who has built it had all that it takes.
  if (Object.keys(sanitizers).some((name) => existsSync(libraryOf(name)))) return undefined;
  const headers = '#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n';
  const file = path.join(here, 'build', `headers.${process.pid}.cc`);
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, headers);
  try {
    await run('g++', ['-fsyntax-only', file]);
    return undefined;
  } catch (error) {
    if (error.code === 'ENOENT') return 'there is no g++';
    return 'the headers of rdma-core are missing (libibverbs-dev and librdmacm-dev)';
  } finally {
    await rm(file, { force: true });
  }
}

async function sourcesIn(folder) {
  const names = await readdir(path.join(here, folder));
  return names.sort().map((name) => path.join(here, folder, name));
}

async function contents(files) {
  const texts = await Promise.all(files.map((file) => readFile(file, 'utf8')));
  return texts.join('\0');
}

async function compile(source, flags, headerText, output) {
  const object = path.join(output, `${path.basename(path.dirname(source))}-${path.basename(source)}.o`);
  const stamp = hash([flags.join(' '), headerText, await readFile(source, 'utf8')]);
  await unlessStamped(object, stamp, (target) => run('g++', [...flags, '-c', source, '-o', target]));
  return object;
}

async function link(target, parts, flags, inputs) {
  const stamps = await Promise.all(inputs.map((input) => readFile(`${input}.stamp`, 'utf8')));
  await unlessStamped(target, hash([parts.join(' '), ...stamps]), (unfinished) =>
    run('g++', [...flags, ...parts, '-o', unfinished]),
  );
}

async function unlessStamped(target, stamp, make) {
  const stampFile = `${target}.stamp`;
  if (existsSync(target) && existsSync(stampFile) && (await readFile(stampFile, 'utf8')) === stamp) return;
  const unfinished = `${target}.${process.pid}`;
  try {
    await make(unfinished);
  } catch (error) {
    throw new Error(error.stderr || error.message);
  }
  await rename(unfinished, target);
  await writeFile(`${stampFile}.${process.pid}`, stamp);
  await rename(`${stampFile}.${process.pid}`, stampFile);
}

function hash(parts) {
  const sum = createHash('sha256');
  for (const part of parts) sum.update(part).update('\0');
  return sum.digest('hex');
}

async function inParallel(items, work) {
  const results = new Array(items.length);
  let next = 0;
  const worker = async () => {
    while (next < items.length) {
      const index = next++;
      results[index] = await work(items[index]);
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, cpus().length) }, worker));
  return results;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const option = process.argv[2];
  if (process.argv.length > 3 || (option !== undefined && option !== '--asan' && option !== '--tsan')) {
    console.error('usage: node test/simulated-verbs/build.mjs [--asan | --tsan]');
    process.exit(2);
  }
  try {
    const sanitizer = option ? option.slice(2) : 'none';
    await buildSelfTest({ sanitizer });
    console.log(libraryOf(sanitizer));
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
