/**
 * What is in a tarball, against what has to be.
 */

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, posix, relative } from 'node:path';
import { root } from '../lib/paths.mjs';

/** @param {string} tarball @returns {Map<string, string>} the text of each file, by its path in the package */
function filesOf(tarball) {
  const directory = mkdtempSync(join(tmpdir(), 'verbmq-packed-'));
  try {
    execFileSync('tar', ['-xzf', tarball, '-C', directory, '--strip-components', '1']);
    const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
    const paths = entries
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name));
    return new Map(paths.map((path) => [relative(directory, path), readFileSync(path, 'utf8')]));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/**
 * @param {string} tarball
 * @returns {string[]} what is missing in it, or should not be there
 */
export function packedFilesProblems(tarball) {
  const files = filesOf(tarball);
  const manifest = JSON.parse(files.get('package.json') ?? '{}');
  return [
    ...missing(files, ['README.md', 'LICENSE', ...entryFiles(manifest)]),
    ...(files.get('LICENSE') === readFileSync(join(root, 'LICENSE'), 'utf8')
      ? []
      : ['LICENSE is another one']),
    ...[...files].flatMap(([path, text]) => (path.endsWith('.map') ? missingSources(files, path, text) : [])),
    ...[...files].flatMap(([path, text]) =>
      /\.(cc|h)$/.test(path) ? missingIncludes(files, path, text) : [],
    ),
    ...missing(
      files,
      [...(files.get('binding.gyp') ?? '').matchAll(/"(cpp\/[^"]+\.cc)"/g)].map(([, path]) => path),
    ),
    ...Object.entries(manifest.dependencies ?? {})
      .filter(([, version]) => String(version).startsWith('workspace:'))
      .map(([name]) => `package.json: ${name} is a dependency that exists in the workspace alone`),
    ...[...files.keys()]
      .filter((path) => /tsbuildinfo|\.test\./.test(path))
      .map((path) => `${path} is nothing for users`),
  ];
}

/** @param {Map<string, string>} files @param {string[]} paths */
const missing = (files, paths) =>
  paths.filter((path) => !files.has(path)).map((path) => `${path} is missing`);

/** What the manifest names. @param {any} manifest @returns {string[]} */
function entryFiles({ exports = {}, bin = {} }) {
  const named = Object.values(exports).flatMap((entry) =>
    typeof entry === 'string' ? [entry] : Object.values(entry),
  );
  return [...named, ...Object.values(bin)].map((path) => posix.normalize(path));
}

/** Debuggers and editors go to the sources by these. @param {Map<string, string>} files @param {string} path @param {string} text */
function missingSources(files, path, text) {
  const { sources, sourcesContent = [] } = JSON.parse(text);
  return /** @type {string[]} */ (sources)
    .filter((_, index) => typeof sourcesContent[index] !== 'string')
    .map((source) => posix.join(posix.dirname(path), source))
    .filter((source) => !files.has(source))
    .map((source) => `${path} leads to ${source}, which is missing`);
}

/** The addon is built from what is in the package. @param {Map<string, string>} files @param {string} path @param {string} text */
function missingIncludes(files, path, text) {
  return [...text.matchAll(/^#include "([^"]+)"/gm)]
    .map(([, name]) => `cpp/${name}`)
    .filter((name) => !files.has(name))
    .map((name) => `${path} includes ${name}, which is missing`);
}
