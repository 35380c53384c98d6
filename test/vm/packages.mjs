/**
 * The Debian packages that the guest uses on the machine: which are missing, and their installation.
 */

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { GuestError } from './guest-error.mjs';

/** What a run needs. The guest's root is the machine's, so that tools for the guest are installed on the machine. */
export const runPackages = [
  'qemu-system-x86',
  'iproute2',
  'ibverbs-providers',
  'ibverbs-utils',
  'rdmacm-utils',
  'perftest',
  'libibverbs-dev',
  'librdmacm-dev',
];

/**
 * @param {string[]} packages
 * @returns {string[]} Those of the packages that are not installed.
 */
export function missingPackages(packages) {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg's own notation
  const format = '-f=${Package} ${db:Status-Status}\\n';
  const answer = spawnSync('dpkg-query', ['-W', format, ...packages], { encoding: 'utf8' });
  if (answer.error) {
    throw new GuestError(`the guest needs a machine with dpkg: ${answer.error.message}`);
  }
  const installed = new Set(
    answer.stdout
      .split('\n')
      .filter((line) => line.endsWith(' installed'))
      .map((line) => line.split(' ')[0]),
  );
  return packages.filter((name) => !installed.has(name));
}

/**
 * Runs apt-get, its output on our stderr.
 * @param {string[]} args
 * @param {string} [directory]
 * @returns {boolean} whether it succeeded
 */
export function aptGet(args, directory) {
  const result = spawnSync(
    'apt-get',
    [
      '-o',
      'DPkg::Lock::Timeout=300',
      '-o',
      'APT::Sandbox::User=root',
      '-o',
      'Dpkg::Use-Pty=0',
      '-qq',
      ...args,
    ],
    {
      cwd: directory,
      stdio: ['ignore', 2, 2],
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    },
  );
  return result.status === 0;
}

/**
 * Brings apt's lists up to date where that is possible. An old list names files that the archive has no longer.
 */
export function updateLists() {
  if (process.getuid?.() === 0) {
    aptGet(['update']);
  }
}

/**
 * Installs what is missing when run as root.
 * @param {string[]} packages
 * @param {(text: string) => void} log
 * @throws {GuestError} naming the packages when they cannot be installed from here
 */
export function ensurePackages(packages, log) {
  const missing = missingPackages(packages);
  if (missing.length === 0) {
    return;
  }
  const command = `apt-get install -y --no-install-recommends ${missing.join(' ')}`;
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) {
    throw new GuestError(`Debian packages are missing. Install them as root:\n  ${command}`);
  }
  log(`installing Debian packages: ${missing.join(' ')}`);
  const install = ['install', '-y', '--no-install-recommends', ...missing];
  if (!aptGet(install)) {
    updateLists();
    if (!aptGet(install)) {
      throw new GuestError(`apt-get failed (see above): ${command}`);
    }
  }
}
