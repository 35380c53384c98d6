#!/usr/bin/env node
/**
 * What holds for files as such: the lockfile names packages by their hashes and no place to get them from, and no
 * setting chooses a registry; so anybody installs from the registry of their own choice. Long files are listed as well,
 * which is no fault: a file that has a reason to be long says "Longer than 300 lines" and why in its first comment.
 *
 * Usage: check-files.mjs [CHECKOUT]
 */

import { existsSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { checkCommand } from './lib/check-command.mjs';
import { filesUnder } from './lib/files-under.mjs';

const longFileLines = 300;

/** Where dependencies are installed from a lockfile. */
const projects = ['.', 'bench/peers'];

/**
 * @param {string} root a checkout
 * @returns {string[]} the problems, each with its place
 */
export function checkFiles(root) {
  return projects.flatMap((project) => [
    ...linesThatMatch(
      root,
      join(project, 'pnpm-lock.yaml'),
      /\btarball:|https?:\/\//,
      'names a place to download from',
    ),
    ...linesThatMatch(root, join(project, '.npmrc'), /registry|_auth|\/\//, 'chooses a registry'),
    ...linesThatMatch(root, join(project, 'pnpm-workspace.yaml'), /registr(y|ies)/, 'chooses a registry'),
  ]);
}

/**
 * @param {string} root a checkout
 * @returns {string[]} the files over 300 lines that do not say why
 */
export function longFiles(root) {
  return filesUnder(root, /\.(m?[jt]s|h|cc|sh)$/).flatMap((path) => {
    const text = readFileSync(path, 'utf8');
    const lines = text.split('\n').length - 1;
    const saysWhy = /longer than 300 lines/i.test(text.split('\n').slice(0, 30).join(' '));
    return lines > longFileLines && !saysWhy ? [`${relative(root, path)}: ${lines} lines`] : [];
  });
}

/** @param {string} root @param {string} name @param {RegExp} pattern @param {string} fault */
function linesThatMatch(root, name, pattern, fault) {
  const path = join(root, name);
  if (!existsSync(path)) {
    return [];
  }
  return readFileSync(path, 'utf8')
    .split('\n')
    .flatMap((line, index) => (pattern.test(line) ? [`${name}:${index + 1}: ${fault}: ${line.trim()}`] : []));
}

/** @param {string} root */
function checkAndList(root) {
  for (const file of longFiles(root)) {
    console.log(`long file: ${file}`);
  }
  return checkFiles(root);
}

checkCommand(import.meta.url, 'files', checkAndList);
