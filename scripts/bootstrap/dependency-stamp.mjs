/**
 * Whether node_modules holds what the lockfile names, without asking pnpm, which takes seconds.
 */

import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageDirectories } from '../lib/paths.mjs';

/** @param {string} root */
const stampPath = (root) => join(root, 'node_modules/.verbmq-bootstrap');

/** @param {string} root @returns {string[]} the manifests of the workspace */
const manifests = (root) => [root, ...packageDirectories(root)].map((path) => join(path, 'package.json'));

/** Everything that decides what pnpm installs. @param {string} root */
function fingerprint(root) {
  const hash = createHash('sha256');
  // Some dependencies are programs for one platform.
  hash.update(`${process.platform} ${process.arch}\n`);
  const files = ['pnpm-lock.yaml', 'pnpm-workspace.yaml', '.npmrc']
    .map((name) => join(root, name))
    .filter((path) => existsSync(path));
  for (const path of [...files, ...manifests(root)]) {
    hash.update(readFileSync(path)).update('\0');
  }
  return hash.digest('hex');
}

/** @param {string} root the checkout, or a project of its own @returns {boolean} */
export function dependenciesInstalled(root) {
  const stamp = stampPath(root);
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== fingerprint(root)) {
    return false;
  }
  // A single node_modules may have been removed.
  return manifests(root).every((path) => {
    const { dependencies = {}, devDependencies = {} } = JSON.parse(readFileSync(path, 'utf8'));
    return Object.keys({ ...dependencies, ...devDependencies }).every((name) =>
      existsSync(join(path, '../node_modules', name)),
    );
  });
}

/** To be called when an installation has succeeded. @param {string} root */
export function recordDependencies(root) {
  writeFileSync(stampPath(root), fingerprint(root));
}
