/**
 * Places in the checkout that several scripts name.
 */

import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The checkout's directory, without a slash at its end. */
export const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');

/** What `bench --peers` compares with: a project of its own, so that nobody else installs its dependencies. */
export const peersDirectory = join(root, 'bench/peers');

/**
 * @param {string} [base] a checkout, or a project without packages
 * @returns {string[]} absolute paths of the packages' directories, sorted
 */
export function packageDirectories(base = root) {
  if (!existsSync(join(base, 'packages'))) {
    return [];
  }
  return readdirSync(join(base, 'packages'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(base, 'packages', entry.name))
    .sort();
}

/** The script behind a dependency's command: starting it with our own Node needs neither a shell nor PATH. */
export const tools = {
  attw: join(root, 'node_modules/@arethetypeswrong/cli/dist/index.js'),
  biome: join(root, 'node_modules/@biomejs/biome/bin/biome'),
  publint: join(root, 'node_modules/publint/src/cli.js'),
  tsc: join(root, 'node_modules/typescript/bin/tsc'),
  vitest: join(root, 'node_modules/vitest/vitest.mjs'),
};
