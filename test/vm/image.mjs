/**
 * The guest's kernel directory: Debian's kernel, the modules that the guest loads, siw built from Debian's kernel
 * source, and an initramfs of all that. Built once into a cache outside of the repository, with no root needed.
 *
 * Run as a program (by `ensureImage`, under a lock) it builds into the cache.
 */

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { homedir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { GuestError } from './guest-error.mjs';
import { aptGet, buildPackages, ensurePackages, updateLists } from './packages.mjs';

/** Modules in loading order, by group; their dependencies are added. `softdep`s are not followed, hence crc32c_generic. */
const moduleGroups = {
  base: [
    'virtio_pci',
    'virtio_net',
    'virtio_console',
    'virtio-rng',
    '9p',
    '9pnet_virtio',
    'overlay',
    'veth',
    'sch_netem',
  ],
  rdma: ['crc32_generic', 'crc32-pclmul', 'crc32c_generic', 'libcrc32c', 'ib_uverbs', 'rdma_ucm', 'ib_umad'],
  rxe: ['rdma_rxe', 'smc', 'smc_diag'],
  siw: ['siw'],
};

const here = fileURLToPath(new URL('.', import.meta.url));

/** The directory that holds the caches of all recipes. */
function cacheRoot() {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'verbmq');
}

/** Changes whenever this file or the initramfs program does. */
function recipeHash() {
  const hash = createHash('sha256');
  for (const name of ['image.mjs', 'guest-init.sh']) {
    hash.update(fs.readFileSync(join(here, name)));
  }
  return hash.digest('hex').slice(0, 12);
}

/** @returns {string | undefined} the newest complete cache of the present recipe */
function findImage() {
  const root = cacheRoot();
  if (!fs.existsSync(root)) {
    return undefined;
  }
  const suffix = `-${recipeHash()}`;
  return fs
    .readdirSync(root)
    .filter((name) => name.startsWith('guest-') && name.endsWith(suffix))
    .map((name) => join(root, name))
    .sort((a, b) => fs.statSync(b).mtimeMs - fs.statSync(a).mtimeMs)[0];
}

/**
 * Finds the kernel directory, or builds it.
 * @param {(text: string) => void} log
 * @returns {string} a directory with `vmlinux` and `initramfs`
 * @throws {GuestError}
 */
export function ensureImage(log) {
  const found = findImage();
  if (found) {
    return found;
  }
  ensurePackages(buildPackages, log);
  const root = cacheRoot();
  fs.mkdirSync(root, { recursive: true });
  log(`building the guest's kernel and modules into ${root} (once, about a minute)`);
  // The lock is the kernel's: it is freed however the builder ends. A second run waits here and then finds the cache.
  const build = spawnSync(
    'flock',
    ['--timeout', '900', join(root, 'lock'), process.execPath, fileURLToPath(import.meta.url)],
    {
      stdio: ['ignore', 2, 2],
    },
  );
  const built = findImage();
  if (build.status !== 0 || !built) {
    throw new GuestError('the guest kernel could not be built, see above');
  }
  return built;
}

/**
 * @param {string} command @param {string[]} args @param {import('node:child_process').SpawnSyncOptions} [options]
 * @returns {string} stdout
 */
function run(command, args, options) {
  const result = spawnSync(command, args, {
    maxBuffer: 1 << 28,
    stdio: ['ignore', 'pipe', 'pipe'],
    ...options,
  });
  if (result.status !== 0) {
    const why = result.error?.message ?? `${result.stdout}\n${result.stderr}`;
    throw new GuestError(
      `${command} ${args.join(' ')} failed:\n${why.trim().split('\n').slice(-20).join('\n')}`,
    );
  }
  return result.stdout?.toString() ?? '';
}

/** @returns {string} the release of Debian's present kernel, such as 6.1.0-57-amd64 */
function kernelRelease() {
  const find = () =>
    /linux-image-(6\.1\.\S+-amd64)/.exec(run('apt-cache', ['depends', 'linux-image-amd64']))?.[1];
  let release = find();
  if (!release) {
    updateLists();
    release = find();
  }
  if (!release) {
    throw new GuestError(
      'apt knows no linux-image-6.1 kernel: the guest is built on Debian 12 (try apt-get update as root)',
    );
  }
  return release;
}

/**
 * Downloads packages and unpacks them, without installing them.
 * @param {string[]} packages @param {string} work
 */
function unpackPackages(packages, work) {
  const debs = join(work, 'debs');
  fs.mkdirSync(debs);
  if (!aptGet(['download', ...packages], debs)) {
    updateLists();
    if (!aptGet(['download', ...packages], debs)) {
      throw new GuestError(`apt-get download ${packages.join(' ')} failed, see above`);
    }
  }
  for (const deb of fs.readdirSync(debs)) {
    run('dpkg', ['-x', join(debs, deb), join(work, 'root')]);
  }
}

/**
 * Takes the kernel out of its self-extracting file. Where it lies in there: the boot protocol, x86/boot.rst in the
 * kernel's documentation.
 * @param {string} vmlinuz @param {string} target
 */
function extractKernel(vmlinuz, target) {
  const file = fs.readFileSync(vmlinuz);
  const setupSectors = file[0x1f1] || 4;
  const start = (setupSectors + 1) * 512 + file.readUInt32LE(0x248);
  const payload = file.subarray(start, start + file.readUInt32LE(0x24c));
  // The size that follows the xz stream is not part of it.
  const output = fs.openSync(target, 'w');
  run('xz', ['--single-stream', '-dc'], { input: payload, stdio: ['pipe', output, 'pipe'] });
  fs.closeSync(output);
}

/**
 * Builds siw, which Debian's kernel package leaves out.
 * @param {string} work @param {string} release
 * @returns {string} path of siw.ko
 */
function buildSiw(work, release) {
  const sources = join(work, 'root/usr/src');
  const headers = join(sources, `linux-headers-${release}`);
  // The headers are not where their package would install them.
  const makefile = join(headers, 'Makefile');
  fs.writeFileSync(makefile, fs.readFileSync(makefile, 'utf8').replaceAll('/usr/src/', `${sources}/`));
  run('tar', [
    '-xJf',
    join(sources, 'linux-source-6.1.tar.xz'),
    '-C',
    work,
    '--wildcards',
    '*/drivers/infiniband/sw/siw/*',
  ]);
  const siw = join(work, 'linux-source-6.1/drivers/infiniband/sw/siw');
  run('make', ['-C', headers, `M=${siw}`, 'CONFIG_RDMA_SIW=m', '-j2', 'modules']);
  const module = join(siw, 'siw.ko');
  run('strip', ['--strip-debug', module]);
  return module;
}

/**
 * Copies the modules and writes the list of each driver.
 * @param {string} work @param {string} release @param {string} target directory `modules` of the initramfs
 */
function collectModules(work, release, target) {
  const root = join(work, 'root');
  const tree = join(root, 'lib/modules', release);
  fs.copyFileSync(buildSiw(work, release), join(tree, 'siw.ko'));
  run('/sbin/depmod', ['-b', root, release]);

  /** @type {Map<string, {path: string, needs: string[]}>} */
  const modules = new Map();
  const nameOf = (/** @type {string} */ path) => basename(path).replace(/\.ko$/, '').replaceAll('-', '_');
  for (const line of fs.readFileSync(join(tree, 'modules.dep'), 'utf8').trim().split('\n')) {
    const [path, needs] = line.split(':');
    modules.set(nameOf(path), { path, needs: needs.trim().split(' ').filter(Boolean).map(nameOf) });
  }
  const inOrder = (/** @type {string[]} */ names, /** @type {Set<string>} */ loaded) => {
    /** @type {string[]} */
    const order = [];
    const add = (/** @type {string} */ name) => {
      if (loaded.has(name)) {
        return;
      }
      loaded.add(name);
      const module = modules.get(name);
      if (!module) {
        throw new GuestError(`the kernel ${release} has no module ${name}`);
      }
      module.needs.forEach(add);
      fs.copyFileSync(join(tree, module.path), join(target, `${name}.ko`));
      order.push(`${name}.ko`);
    };
    for (const name of names) {
      add(name.replaceAll('-', '_'));
    }
    return order;
  };
  const writeList = (/** @type {string} */ name, /** @type {string[]} */ order) =>
    fs.writeFileSync(join(target, `${name}.list`), order.map((file) => `${file}\n`).join(''));

  /** @type {Set<string>} */
  const base = new Set();
  writeList('base', inOrder(moduleGroups.base, base));
  for (const driver of /** @type {const} */ (['rxe', 'siw'])) {
    writeList(driver, inOrder([...moduleGroups.rdma, ...moduleGroups[driver]], new Set(base)));
  }
}

/** Builds the kernel directory and puts it in its place in one step. */
function buildImage() {
  const root = cacheRoot();
  // Nobody else builds while we hold the lock: what lies here was interrupted.
  for (const name of fs.readdirSync(root).filter((entry) => entry.startsWith('building-'))) {
    fs.rmSync(join(root, name), { recursive: true, force: true });
  }
  if (findImage()) {
    return;
  }
  const work = fs.mkdtempSync(join(root, 'building-'));
  try {
    const release = kernelRelease();
    unpackPackages(
      [
        `linux-image-${release}`,
        `linux-headers-${release}`,
        `linux-headers-${release.replace(/-amd64$/, '-common')}`,
        'linux-kbuild-6.1',
        'linux-source-6.1',
        'busybox-static',
      ],
      work,
    );
    const tree = join(work, 'initramfs');
    for (const directory of ['bin', 'proc', 'sys', 'dev', 'lower', 'memory', 'root', 'modules']) {
      fs.mkdirSync(join(tree, directory), { recursive: true });
    }
    collectModules(work, release, join(tree, 'modules'));
    const busybox = join(work, 'root/bin/busybox');
    fs.copyFileSync(busybox, join(tree, 'bin/busybox'));
    fs.copyFileSync(join(here, 'guest-init.sh'), join(tree, 'init'));
    fs.chmodSync(join(tree, 'init'), 0o755);

    const image = join(work, 'image');
    fs.mkdirSync(image);
    // Neither is compressed: unpacking would be emulated, which takes 5 s for the kernel alone.
    extractKernel(join(work, `root/boot/vmlinuz-${release}`), join(image, 'vmlinux'));
    run('sh', ['-c', '"$1" find . | "$1" cpio -o -H newc >"$2"', 'sh', busybox, join(image, 'initramfs')], {
      cwd: tree,
    });
    fs.renameSync(image, join(root, `guest-${release}-${recipeHash()}`));
  } finally {
    fs.rmSync(work, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    buildImage();
  } catch (error) {
    console.error(error instanceof GuestError ? error.message : error);
    process.exitCode = 1;
  }
}
