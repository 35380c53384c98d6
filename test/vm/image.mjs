/**
 * The guest's kernel directory: the distribution's kernel, the modules that the guest loads, and an initramfs of them.
 * Made once into a cache outside of the repository, with no root needed.
 *
 * Run as a program (by `ensureImage`, under a lock) it makes the directory.
 */

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { decompress } from './decompress.mjs';
import { thisDistribution } from './distribution.mjs';
import { GuestError } from './guest-error.mjs';
import { collectModules } from './kernel-modules.mjs';
import { unpackedPath, unpackKernel } from './kernel-packages.mjs';
import { ensurePackages } from './packages.mjs';
import { runCommand } from './run-command.mjs';
import { buildSiw } from './siw.mjs';

/** The files that decide what is in a kernel directory. */
const recipe = [
  'image.mjs',
  'kernel-packages.mjs',
  'kernel-modules.mjs',
  'decompress.mjs',
  'siw.mjs',
  'guest-init.sh',
];

const here = fileURLToPath(new URL('.', import.meta.url));

/** The directory that holds the caches of all recipes. */
function cacheRoot() {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'verbmq');
}

/** Changes whenever a file of the recipe does. */
function recipeHash() {
  const hash = createHash('sha256');
  for (const name of recipe) {
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
 * Finds the kernel directory, or makes it.
 * @param {(text: string) => void} log
 * @returns {string} a directory with `vmlinux` and `initramfs`
 * @throws {GuestError}
 */
export function ensureImage(log) {
  const found = findImage();
  if (found) {
    return found;
  }
  ensurePackages(thisDistribution().buildPackages, log);
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
 * Takes the kernel out of its self-extracting file. Where it lies in there: the boot protocol, x86/boot.rst in the
 * kernel's documentation.
 * @param {string} vmlinuz @returns {Buffer} an ELF file
 */
function extractKernel(vmlinuz) {
  const file = fs.readFileSync(vmlinuz);
  const setupSectors = file[0x1f1] || 4;
  const start = (setupSectors + 1) * 512 + file.readUInt32LE(0x248);
  // The last four bytes are the size of the contents, added by the kernel's build.
  const payload = file.subarray(start, start + file.readUInt32LE(0x24c) - 4);
  const kernel = decompress(payload);
  if (kernel.toString('latin1', 0, 4) !== '\x7fELF') {
    throw new GuestError(`${vmlinuz} is compressed in an unknown way`);
  }
  return kernel;
}

/** @param {string} work as `unpackKernel` has filled it @param {string} release @param {string} target the initramfs */
function buildInitramfs(work, release, target) {
  const tree = join(work, 'initramfs');
  for (const directory of ['bin', 'proc', 'sys', 'dev', 'lower', 'memory', 'root', 'modules']) {
    fs.mkdirSync(join(tree, directory), { recursive: true });
  }
  collectModules(unpackedPath(work, `lib/modules/${release}`), join(tree, 'modules'));
  const busybox = unpackedPath(work, 'bin/busybox');
  fs.copyFileSync(busybox, join(tree, 'bin/busybox'));
  fs.copyFileSync(join(here, 'guest-init.sh'), join(tree, 'init'));
  fs.chmodSync(join(tree, 'init'), 0o755);
  runCommand('sh', ['-c', '"$1" find . | "$1" cpio -o -H newc >"$2"', 'sh', busybox, target], { cwd: tree });
}

/** Makes the kernel directory and puts it in its place in one step. */
function buildImage() {
  const root = cacheRoot();
  // Nobody else builds while we hold the lock: what lies here was interrupted.
  for (const name of fs.readdirSync(root).filter((entry) => entry.startsWith('building-'))) {
    fs.rmSync(join(root, name), { recursive: true, force: true });
  }
  if (findImage()) {
    return;
  }
  const distribution = thisDistribution();
  const work = fs.mkdtempSync(join(root, 'building-'));
  try {
    const release = unpackKernel(distribution, work);
    if (distribution.buildsSiw) {
      const modules = unpackedPath(work, `lib/modules/${release}/kernel`);
      fs.renameSync(buildSiw(work, release), join(modules, 'siw.ko'));
    }
    const image = join(work, 'image');
    fs.mkdirSync(image);
    // Neither is compressed: unpacking would be emulated, which takes 5 s for the kernel alone.
    fs.writeFileSync(join(image, 'vmlinux'), extractKernel(join(work, `root/boot/vmlinuz-${release}`)));
    buildInitramfs(work, release, join(image, 'initramfs'));
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
