/**
 * The distribution's present kernel, downloaded and unpacked, but not installed.
 */

import * as fs from 'node:fs';
import { join } from 'node:path';
import { GuestError } from './guest-error.mjs';
import { aptGet, updateLists } from './packages.mjs';
import { runCommand } from './run-command.mjs';

/** @param {string[]} args @returns {string} what apt-cache says, in English */
const aptCache = (...args) =>
  runCommand('apt-cache', args, { env: { ...process.env, LC_ALL: 'C' } }).toString();

/**
 * @param {string} name @param {RegExp} pattern for packages
 * @returns {string[]} the packages on which that one depends, as far as they match
 */
function dependencies(name, pattern) {
  return aptCache('depends', name)
    .split('\n')
    .map((line) => /^[ |]*Depends: (\S+)$/.exec(line)?.[1] ?? '')
    .filter((dependency) => pattern.test(dependency));
}

/** @param {string} kernelPackage @returns {string} the present kernel's release, such as 6.1.0-57-amd64 */
function kernelRelease(kernelPackage) {
  const image = /^linux-image-(?=\d)/;
  const find = () => {
    try {
      return dependencies(kernelPackage, image)[0];
    } catch {
      return undefined; // apt knows no such package, or has no lists at all.
    }
  };
  let found = find();
  if (!found) {
    updateLists();
    found = find();
  }
  if (!found) {
    throw new GuestError(`apt knows no kernel for ${kernelPackage} (try apt-get update as root)`);
  }
  return found.replace(image, '');
}

/** @param {string} release @returns {string[]} what building a module for that kernel needs, with the kernel's source */
function sourcePackages(release) {
  const headers = `linux-headers-${release}`;
  const [version] = /** @type {RegExpExecArray} */ (/^\d+\.\d+/.exec(release));
  // An archive holds several versions of the source.
  const about = aptCache('show', '--no-all-versions', `linux-image-${release}`);
  const exact = /^Version: (\S+)$/m.exec(about)?.[1];
  return [headers, ...dependencies(headers, /^linux-(headers|kbuild)-/), `linux-source-${version}=${exact}`];
}

/**
 * @param {import('./distribution.mjs').Distribution} distribution
 * @param {string} work directory that receives the packages, and in `root` what is in them
 * @returns {string} the kernel's release
 * @throws {GuestError}
 */
export function unpackKernel(distribution, work) {
  const release = kernelRelease(distribution.kernelPackage);
  const packages = [
    `linux-image-${release}`,
    ...distribution.modulePackages.map((name) => `${name}-${release}`),
    ...(distribution.buildsSiw ? sourcePackages(release) : []),
    'busybox-static',
  ];
  const debs = join(work, 'debs');
  fs.mkdirSync(debs);
  if (!aptGet(['download', ...packages], debs)) {
    updateLists();
    if (!aptGet(['download', ...packages], debs)) {
      throw new GuestError(`apt-get download ${packages.join(' ')} failed, see above`);
    }
  }
  for (const deb of fs.readdirSync(debs)) {
    runCommand('dpkg', ['-x', join(debs, deb), join(work, 'root')]);
  }
  return release;
}

/**
 * @param {string} work as `unpackKernel` has filled it
 * @param {string} path without the `usr` that newer packages put before it
 * @returns {string} where it lies
 * @throws {GuestError} when no package holds it
 */
export function unpackedPath(work, path) {
  const found = ['root', 'root/usr'].map((root) => join(work, root, path)).find(fs.existsSync);
  if (!found) {
    throw new GuestError(`the packages hold no ${path}`);
  }
  return found;
}
