import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Installed, built or cached: not ours to check. */
const skipped = new Set(['node_modules', 'dist', 'build', 'build-asan', '.git', '.cache', 'coverage']);

/**
 * @param {string} directory need not exist
 * @param {RegExp} pattern for the name of a file
 * @returns {string[]} paths of the files in it and below, sorted
 */
export function filesUnder(directory, pattern) {
  if (!existsSync(directory)) {
    return [];
  }
  return readdirSync(directory, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(directory, entry.name);
      if (entry.isDirectory()) {
        return skipped.has(entry.name) ? [] : filesUnder(path, pattern);
      }
      return entry.isFile() && pattern.test(entry.name) ? [path] : [];
    });
}
