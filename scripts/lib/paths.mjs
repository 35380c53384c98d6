/**
 * Places in the checkout that several scripts name.
 */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The checkout's directory, without a slash at its end. */
export const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');

/** @param {string} [base] a checkout @returns {string[]} absolute paths of the packages' directories, sorted */
export function packageDirectories(base = root) {
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
