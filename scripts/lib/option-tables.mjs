/**
 * The tables of options in docs/options.md against the interfaces that they are about. Each has a comment before it:
 *
 *   <!-- options: FILE INTERFACE… [without NAME…] -->
 */

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { filesUnder } from './files-under.mjs';
import { packageDirectories } from './paths.mjs';

const document = 'docs/options.md';

/** Options that are no matter for users: of tests, of errors that transports make, of what `probe` is built from. */
const notForUsers = new Set(['MemoryTransportOptions', 'ProbeOptions', 'VerbmqErrorOptions']);

/**
 * @param {string} root a checkout
 * @returns {string[]} the problems: an option, or an interface of options, that has no row or no table; a row of no option; another default
 */
export function optionTableProblems(root) {
  const path = join(root, document);
  if (!existsSync(path)) {
    return [];
  }
  const text = readFileSync(path, 'utf8');
  const tables = [
    ...text.matchAll(/^<!-- options: (\S+) (.+?)(?: without (.+))? -->\n\n((?:\|.*\n?)+)/gm),
  ].map(([, file, names, without = '', rows]) => ({
    file,
    names: names.split(' '),
    without: words(without),
    rows,
  }));
  return [...tables.flatMap((table) => tableProblems(root, table)), ...withoutTable(root, tables)];
}

/** @param {string} text @returns {string[]} */
const words = (text) => text.split(/[ ,]+/).filter((word) => word !== '');

/** @param {string} root @param {{file: string, names: string[], without: string[], rows: string}} table */
function tableProblems(root, { file, names, without, rows }) {
  const source = readFileSync(join(root, file), 'utf8');
  const options = new Map(names.flatMap((name) => [...membersOf(source, name)]));
  const where = `${document}: ${names.join(', ')}`;
  const shown = rowsOf(rows);
  return [
    ...names
      .filter((name) => membersOf(source, name).size === 0)
      .map((name) => `${where}: ${file} has no ${name}`),
    ...[...options.keys()]
      .filter((name) => !without.includes(name) && !shown.has(name))
      .map((name) => `${where}: ${name} is missing`),
    ...[...shown].flatMap(([name, value]) => {
      const comment = options.get(name);
      if (comment === undefined) {
        return [`${where}: there is no option ${name}`];
      }
      const isSaid = !/\d/.test(value) || /Defaults?:? ([^.]*)/.exec(comment)?.[1].includes(value);
      return isSaid ? [] : [`${where}: ${name}: ${file} does not say that its default is ${value}`];
    }),
  ];
}

/** Names of options, and the default that is shown for each. @param {string} rows @returns {Map<string, string>} */
function rowsOf(rows) {
  return new Map(
    rows
      .split('\n')
      .slice(2)
      .map((row) => row.split('|').map((cell) => cell.trim()))
      .flatMap(([, names = '', value = '']) =>
        [...names.matchAll(/`(\w+)`/g)].map(([, name]) => /** @type {const} */ ([name, value])),
      ),
  );
}

/**
 * The members of an interface, each with the comment before it, on one line.
 * @param {string} source @param {string} name @returns {Map<string, string>} none where there is no such interface
 */
function membersOf(source, name) {
  const body =
    new RegExp(`^(?:export )?interface ${name}\\b[^{]*\\{\n([\\s\\S]*?)^\\}`, 'm').exec(source)?.[1] ?? '';
  return new Map(
    [...body.matchAll(/^((?: {2}\/?\*.*\n| {3}\*.*\n)*) {2}readonly (\w+)\??:/gm)].map(
      ([, comment, member]) => [member, comment.replace(/\s*\n\s*\*\s*/g, ' ')],
    ),
  );
}

/** @param {string} root @param {readonly {names: string[]}[]} tables */
function withoutTable(root, tables) {
  const documented = new Set(tables.flatMap(({ names }) => names));
  const sources = packageDirectories(root).flatMap((directory) =>
    filesUnder(join(directory, 'src'), /\.ts$/),
  );
  const texts = new Map(sources.map((path) => [path, readFileSync(path, 'utf8')]));
  const published = [...texts].filter(([path]) => path.endsWith('/index.ts')).map(([, text]) => text);
  return [...texts.values()].flatMap((text) =>
    [...text.matchAll(/^export interface (\w+Options)\b/gm)]
      .map(([, name]) => name)
      .filter((name) => !documented.has(name) && !notForUsers.has(name))
      .filter((name) => membersOf(text, name).size > 0)
      .filter((name) => published.some((index) => new RegExp(`\\b${name}\\b`).test(index)))
      .map((name) => `${document}: no table for ${name}`),
  );
}
