#!/usr/bin/env node
/**
 * The dependency rule: which part of verbmq may know which.
 *
 * - Packages: `core` imports neither transport, the transports import `core` and never each other, `verbmq` composes.
 *   Adapters for frameworks know `core` alone: transports are passed in. Tests, benchmarks and examples are free.
 * - Folders of `core`: each imports from lower layers only, and the contract from nobody.
 * - C++: verbs/ → engine/ → napi/, each includes what is before it; only verbs/ and engine/ see the verbs headers, only
 *   napi/ sees Node-API. So napi/ may include of verbs/ no more than what does without those headers.
 *
 * Usage: check-dependency-rule.mjs [CHECKOUT]
 */

import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import ts from 'typescript';
import { checkCommand } from './lib/check-command.mjs';
import { filesUnder } from './lib/files-under.mjs';
import { packageDirectories } from './lib/paths.mjs';

/** Which packages of the workspace a package may import. Those that are not named here: `core`. */
const mayImport = new Map([
  ['@verbmq/core', []],
  ['@verbmq/native', ['@verbmq/core']],
  ['@verbmq/tcp-fallback', ['@verbmq/core']],
  ['verbmq', ['@verbmq/core', '@verbmq/native', '@verbmq/tcp-fallback']],
]);

/** The layers of core, by folder. Folders that are not named here stand above these. */
const layers = new Map([
  ['contract', 0],
  ['transport-kit', 1],
  ['codec', 1],
  ['memory-transport', 2],
  ['auto', 2],
  // Queues and topics are services that are called.
  ['rpc', 2],
]);
const topLayer = 3;

const verbsHeader = /^(infiniband|rdma)\//;
const nodeHeader = /^(napi\.h|napi-inl\.h|node(_api\w*|_buffer)?\.h|js_native_api\w*\.h)$/;

/** What a folder of the addon may include: own folders, and patterns of foreign headers that are not for it. */
const nativeFolders = new Map([
  ['verbs', { own: ['verbs'], forbidden: nodeHeader }],
  [
    'engine',
    {
      own: ['verbs', 'engine'],
      forbidden: nodeHeader,
    },
  ],
  ['napi', { own: ['engine', 'napi'], forbidden: verbsHeader }],
]);

/**
 * @param {string} root a checkout
 * @returns {string[]} the violations, each with its place
 */
export function checkDependencyRule(root) {
  const packages = packageDirectories(root).filter((path) => existsSync(join(path, 'package.json')));
  const workspace = packages.map((path) => readManifest(path).name);
  return packages.flatMap((directory) => [
    ...checkManifest(root, directory, workspace),
    ...checkImports(root, directory, workspace),
    ...checkLayers(root, directory),
    ...checkIncludes(root, directory),
  ]);
}

/** @param {string} directory */
const readManifest = (directory) => JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));

/** @param {string} from @param {string} to names of packages */
const allowed = (from, to) => (mayImport.get(from) ?? ['@verbmq/core']).includes(to);

/** @param {string} root @param {string} directory @param {string[]} workspace */
function checkManifest(root, directory, workspace) {
  const manifest = readManifest(directory);
  const path = relative(root, join(directory, 'package.json'));
  return ['dependencies', 'peerDependencies', 'optionalDependencies'].flatMap((kind) =>
    Object.keys(manifest[kind] ?? {})
      .filter((name) => workspace.includes(name) && !allowed(manifest.name, name))
      .map((name) => `${path}: ${manifest.name} must not depend on ${name} (${kind})`),
  );
}

/** @param {string} root @param {string} directory @param {string[]} workspace */
function checkImports(root, directory, workspace) {
  const { name } = readManifest(directory);
  const problems = [];
  for (const { file, place, specifier } of importsOf(root, directory)) {
    if (specifier.startsWith('.')) {
      if (!isInside(directory, resolve(dirname(file), specifier))) {
        problems.push(`${place}: ${specifier} leaves the package: import by the package's name`);
      }
      continue;
    }
    const target = specifier
      .split('/')
      .slice(0, specifier.startsWith('@') ? 2 : 1)
      .join('/');
    if (workspace.includes(target) && !allowed(name, target)) {
      problems.push(`${place}: ${name} must not import ${target}`);
    }
  }
  return problems;
}

/** @param {string} root @param {string} directory */
function checkLayers(root, directory) {
  if (basename(directory) !== 'core') {
    return [];
  }
  const source = join(directory, 'src');
  /** A file beside the folders (index.ts) belongs to none, and joins all. @param {string} path */
  const folderOf = (path) => {
    const parts = relative(source, path).split(sep);
    return parts.length > 1 ? parts[0] : undefined;
  };
  const layerOf = (/** @type {string} */ folder) => layers.get(folder) ?? topLayer;
  const problems = [];
  for (const { file, place, specifier } of importsOf(root, directory)) {
    const from = folderOf(file);
    if (from === undefined || !specifier.startsWith('.')) {
      continue;
    }
    const path = resolve(dirname(file), specifier);
    const to = folderOf(path);
    if (to === undefined) {
      problems.push(`${place}: ${specifier} joins all folders of core: import from the folder that is meant`);
    } else if (from !== to && layerOf(to) >= layerOf(from)) {
      problems.push(`${place}: ${from}/ must not import ${to}/: it does not stand below it`);
    }
  }
  return problems;
}

/** @param {string} root @param {string} directory */
function checkIncludes(root, directory) {
  const source = join(directory, 'cpp');
  const problems = [];
  for (const file of filesUnder(source, /\.(h|hpp|cc|cpp|c)$/)) {
    const folder = relative(source, file).split(sep)[0];
    const rule = nativeFolders.get(folder);
    if (rule === undefined) {
      problems.push(
        `${relative(root, file)}: only ${[...nativeFolders.keys()].join('/, ')}/ hold the addon's sources`,
      );
      continue;
    }
    for (const { line, header } of includesOf(file)) {
      const place = `${relative(root, file)}:${line}`;
      const own = ownHeader(source, file, header);
      const target = own === undefined ? undefined : relative(source, own).split(sep)[0];
      if (rule.forbidden.test(header)) {
        problems.push(`${place}: ${folder}/ must not include <${header}>`);
      } else if (own !== undefined && target !== undefined && !rule.own.includes(target)) {
        if (folder !== 'napi' || target !== 'verbs' || seesVerbs(source, own)) {
          problems.push(`${place}: ${folder}/ must not include ${header}`);
        }
      }
    }
  }
  return problems;
}

/** @param {string} file @returns {{line: number, header: string}[]} */
function includesOf(file) {
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((text, index) => {
      const header = /^\s*#\s*include\s*[<"]([^>"]+)[>"]/.exec(text)?.[1];
      return header === undefined ? [] : [{ line: index + 1, header }];
    });
}

/**
 * @param {string} source the cpp directory @param {string} file @param {string} header as included
 * @returns {string | undefined} the path of a header of the addon's own
 */
function ownHeader(source, file, header) {
  return [source, dirname(file)]
    .map((base) => resolve(base, header))
    .find((path) => isInside(source, path) && existsSync(path));
}

/**
 * Whether a header includes the verbs headers, by itself or through others.
 * @param {string} source the cpp directory @param {string} file @param {Set<string>} [seen]
 * @returns {boolean}
 */
function seesVerbs(source, file, seen = new Set([file])) {
  return includesOf(file).some(({ header }) => {
    const own = ownHeader(source, file, header);
    if (own === undefined || seen.has(own)) {
      return verbsHeader.test(header);
    }
    seen.add(own);
    return seesVerbs(source, own, seen);
  });
}

/** @param {string} directory @param {string} path */
const isInside = (directory, path) => path.startsWith(directory + sep);

/** The imports of what a package ships. @param {string} root @param {string} directory */
function* importsOf(root, directory) {
  for (const folder of ['src', 'scripts']) {
    for (const file of filesUnder(join(directory, folder), /\.[cm]?[jt]s$/)) {
      const text = readFileSync(file, 'utf8');
      for (const { fileName, pos } of ts.preProcessFile(text, true, true).importedFiles) {
        const line = text.slice(0, pos).split('\n').length;
        yield { file, place: `${relative(root, file)}:${line}`, specifier: fileName };
      }
    }
  }
}

checkCommand(import.meta.url, 'dependency rule', checkDependencyRule);
