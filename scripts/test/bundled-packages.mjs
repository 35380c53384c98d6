/**
 * The packages as the guest reads them: the same code in few files. A program that imports them opens some two hundred, which in there takes
 * longer than all else that its start does.
 */

import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { root } from '../lib/paths.mjs';

/** Those of many files. The package `verbmq` has a few. */
const names = ['core', 'native', 'tcp-fallback'];

/** @param {string} name @returns {string[]} the files behind the names by which a package can be imported */
function entriesOf(name) {
  const directory = join(root, 'packages', name);
  const { exports } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));
  return Object.values(exports).flatMap((entry) =>
    entry.default === undefined ? [] : [join(directory, entry.default)],
  );
}

/**
 * Bundles what is built. A module that two entries of a package import remains one, and what a package imports from others is not part of it.
 * @param {string} directory a new one for the files
 * @returns {Promise<{files: string, built: string}[]>} for each package the directory of its bundle, and the one whose place that can take
 */
export async function bundlePackages(directory) {
  // Not at the top: `npm test` begins before its dependencies are installed.
  const { rolldown } = await import('rolldown');
  const bundled = [];
  for (const name of names) {
    const built = join(root, 'packages', name, 'dist');
    const files = join(directory, name);
    const bundle = await rolldown({
      input: Object.fromEntries(
        entriesOf(name).map((path) => [relative(built, path).replace(/\.js$/, ''), path]),
      ),
      external: /^[^./]/,
      platform: 'node',
      treeshake: false,
    });
    // Chunks lie beside the entries: a module may find its package by its own place.
    await bundle.write({ dir: files, entryFileNames: '[name].js', chunkFileNames: '[name]-[hash].js' });
    await bundle.close();
    bundled.push({ files, built });
  }
  return bundled;
}
