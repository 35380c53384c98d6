#!/usr/bin/env node
/**
 * What the documents say against what is there: every error code has its section in docs/errors.md and is thrown, every option its row
 * in docs/options.md, every reason of a path its row in docs/rdma-setup.md, links lead somewhere, and the npm scripts that are named exist.
 *
 * Usage: check-documents.mjs [CHECKOUT]
 */

import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { checkCommand } from './lib/check-command.mjs';
import { filesUnder } from './lib/files-under.mjs';
import { optionTableProblems } from './lib/option-tables.mjs';
import { packageDirectories } from './lib/paths.mjs';

/**
 * @param {string} root a checkout
 * @returns {string[]} the problems, each with its place
 */
export function checkDocuments(root) {
  const documents = filesUnder(root, /\.md$/).map((path) => ({ path, text: readFileSync(path, 'utf8') }));
  return [
    ...checkErrorCodes(root),
    ...optionTableProblems(root),
    ...checkPathReasons(root),
    ...documents.flatMap((document) => checkLinks(root, document)),
    ...documents.flatMap((document) => checkScripts(root, document)),
  ];
}

/** @param {string} root */
function checkErrorCodes(root) {
  const source = 'packages/core/src/contract/errors.ts';
  const sourceText = readFileSync(join(root, source), 'utf8');
  const list = /ERROR_CODES\s*=\s*\[([^\]]*)\]/.exec(sourceText)?.[1];
  if (list === undefined) {
    return [`${source}: no list ERROR_CODES`];
  }
  const codes = list.match(/ERR_VERBMQ_\w+/g) ?? [];
  const text = readFileSync(join(root, 'docs/errors.md'), 'utf8');
  const sections = [...text.matchAll(/^#+\s+`?(ERR_VERBMQ_\w+)`?\s*$/gm)].map((match) => match[1]);
  const known = new Set(codes);
  return [
    ...checkRetryable(source, sourceText, text),
    ...codes
      .filter((code) => !sections.includes(code))
      .map((code) => `docs/errors.md: no section for ${code}`),
    ...sections
      .filter((code) => !known.has(code))
      .map((code) => `docs/errors.md: ${code} is no code of ${source}`),
    ...misspelt(root, known),
    ...unused(root, source, codes),
  ];
}

/** Codes that nothing gives an error: who handles them waits in vain. @param {string} root @param {string} source where the list is @param {string[]} codes */
function unused(root, source, codes) {
  const texts = packageDirectories(root)
    .flatMap((directory) => filesUnder(join(directory, 'src'), /\.ts$/))
    .filter((path) => path !== join(root, source))
    .map((path) => readFileSync(path, 'utf8'));
  return codes
    .filter((code) => !texts.some((text) => text.includes(`'${code}'`)))
    .map((code) => `${source}: nothing throws ${code}`);
}

/**
 * Each section says whether the same call may succeed later, as the source does.
 * @param {string} source its path @param {string} sourceText @param {string} text of the document
 */
function checkRetryable(source, sourceText, text) {
  const retryable = /RETRYABLE[^[]*\[([^\]]*)\]/.exec(sourceText)?.[1] ?? '';
  return text
    .split(/^#+\s+(?=`?ERR_VERBMQ_)/m)
    .slice(1)
    .flatMap((section) => {
      const code = /ERR_VERBMQ_\w+/.exec(section)?.[0] ?? '';
      const said = /\*\*Retryable:\*\* (yes|no)\b/.exec(section)?.[1];
      const is = retryable.includes(`'${code}'`) ? 'yes' : 'no';
      return said === is
        ? []
        : [`docs/errors.md: ${code}: Retryable is ${is} in ${source}, ${said ?? 'missing'} here`];
    });
}

/** Why a connection is on TCP: of each reason it is said what to do. @param {string} root */
function checkPathReasons(root) {
  const source = 'packages/core/src/auto/path-info.ts';
  const document = 'docs/rdma-setup.md';
  if (!existsSync(join(root, source))) {
    return [];
  }
  const type = /type PathReason =([^;]*);/.exec(readFileSync(join(root, source), 'utf8'))?.[1] ?? '';
  const rows = readFileSync(join(root, document), 'utf8').match(/^\| `[\w-]+` +\|/gm) ?? [];
  const reasons = [...type.matchAll(/'([\w-]+)'/g)].map(([, reason]) => reason);
  return reasons
    .filter((reason) => !rows.some((row) => row.startsWith(`| \`${reason}\` `)))
    .map((reason) => `${document}: no row for the reason ${reason} of ${source}`);
}

/** Codes that stand in sources and documents, but not in the list. @param {string} root @param {Set<string>} known */
function misspelt(root, known) {
  return filesUnder(root, /\.(md|m?[jt]s|h|cc)$/)
    .filter((path) => !path.startsWith(join(root, 'test/scripts')))
    .flatMap((path) => {
      const used = new Set(readFileSync(path, 'utf8').match(/\bERR_VERBMQ_[A-Z][A-Z_]*[A-Z]\b/g) ?? []);
      return [...used]
        .filter((code) => !known.has(code))
        .map((code) => `${relative(root, path)}: ${code} is no error code of verbmq`);
    });
}

/** The text without what is code: there, brackets are no links. @param {string} text */
const prose = (text) => text.replace(/^(```|~~~)[\s\S]*?^\1/gm, '').replace(/`[^`\n]*`/g, '');

/** The anchor that a heading gets. @param {string} heading */
const anchor = (heading) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replace(/\s/g, '-');

/** @param {string} text @returns {Set<string>} */
const anchorsOf = (text) => new Set([...text.matchAll(/^#+\s+(.+)$/gm)].map((match) => anchor(match[1])));

/** @param {string} root @param {{path: string, text: string}} document */
function checkLinks(root, { path, text }) {
  const place = relative(root, path);
  const targets = [...prose(text).matchAll(/\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g)].map(
    (match) => match[1],
  );
  return targets.flatMap((target) => {
    if (/^[a-z][a-z0-9+.-]*:/i.test(target)) {
      return [];
    }
    const [file, fragment] = target.split('#');
    const destination = file === '' ? path : resolve(dirname(path), decodeURI(file));
    if (!existsSync(destination)) {
      return [`${place}: nothing is at ${target}`];
    }
    if (
      fragment &&
      destination.endsWith('.md') &&
      !anchorsOf(readFileSync(destination, 'utf8')).has(fragment)
    ) {
      return [`${place}: no heading for ${target}`];
    }
    return [];
  });
}

/** @param {string} root @param {{path: string, text: string}} document */
function checkScripts(root, { path, text }) {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const named = new Set([...text.matchAll(/\bnpm run (?!-)([\w:-]+)/g)].map((match) => match[1]));
  return [...named]
    .filter((name) => scripts[name] === undefined)
    .map((name) => `${relative(root, path)}: package.json has no script ${name}`);
}

checkCommand(import.meta.url, 'documents', checkDocuments);
