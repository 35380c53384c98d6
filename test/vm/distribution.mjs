/**
 * The distributions on which the guest can be made, and what differs between them.
 */

import { existsSync, readFileSync } from 'node:fs';
import { GuestError } from './guest-error.mjs';

/**
 * @typedef {object} Distribution
 * @property {string} kernelPackage the metapackage that depends on `linux-image-RELEASE`, the present kernel
 * @property {string[]} modulePackages packages beside `linux-image-RELEASE` that hold its modules: what stands before RELEASE
 * @property {boolean} buildsSiw whether the kernel comes without siw, so that it is built from the kernel's source
 * @property {string[]} buildPackages what making the kernel directory needs, besides `dpkg` and `apt-get`
 */

/** @param {string[]} tools what the releases have under different names, or not at all @returns {Distribution} */
const debian = (...tools) => ({
  kernelPackage: 'linux-image-amd64',
  modulePackages: [],
  buildsSiw: true,
  buildPackages: [...tools, 'binutils', 'make', 'xz-utils'],
});

/** @type {Distribution} */
const ubuntu = {
  kernelPackage: 'linux-image-generic',
  modulePackages: ['linux-modules', 'linux-modules-extra'],
  buildsSiw: false,
  buildPackages: ['xz-utils', 'zstd'],
};

/** By `ID` and `VERSION_ID` of os-release. @type {Record<string, Distribution>} */
const distributions = {
  'debian 12': debian('gcc-12', 'libelf1'),
  'debian 13': debian('gcc-14', 'libelf1t64', 'zstd'),
  'ubuntu 22.04': ubuntu,
  'ubuntu 24.04': ubuntu,
};

/**
 * @param {string} osRelease the file's text, see os-release(5)
 * @param {string} architecture as Node names it
 * @returns {Distribution}
 * @throws {GuestError} for a machine on which the guest cannot be made
 */
export function distributionOf(osRelease, architecture) {
  const value = (/** @type {string} */ name) =>
    new RegExp(`^${name}=["']?(.*?)["']?$`, 'm').exec(osRelease)?.[1] ?? '';
  const distribution = distributions[`${value('ID')} ${value('VERSION_ID')}`];
  if (!distribution || architecture !== 'x64') {
    const name = value('PRETTY_NAME') || 'a system without os-release';
    throw new GuestError(
      `the guest needs Debian 12 or 13, or Ubuntu 22.04 or 24.04, on x64 (amd64); this is ${name} on ${architecture}`,
    );
  }
  return distribution;
}

/** @returns {Distribution} this machine's @throws {GuestError} */
export function thisDistribution() {
  const file = '/etc/os-release';
  return distributionOf(existsSync(file) ? readFileSync(file, 'utf8') : '', process.arch);
}
