#!/usr/bin/env node
/**
 * Every test file belongs to one project of vitest, so that none is written and never run.
 *
 * Usage: check-test-projects.mjs
 */

import { execFileSync } from 'node:child_process';
import { checkCommand } from './lib/check-command.mjs';
import { filesUnder } from './lib/files-under.mjs';
import { tools } from './lib/paths.mjs';

/** @param {string} root the checkout @returns {string[]} the problems */
function checkTestProjects(root) {
  const listed = execFileSync(process.execPath, [tools.vitest, 'list', '--filesOnly', '--json'], {
    cwd: root,
    encoding: 'utf8',
  });
  /** @type {Map<string, string[]>} */
  const projects = new Map();
  for (const { file, projectName } of JSON.parse(listed)) {
    projects.set(file, [...(projects.get(file) ?? []), projectName]);
  }
  return filesUnder(root, /\.test\.[cm]?[jt]s$/).flatMap((file) => {
    const names = projects.get(file) ?? [];
    return names.length === 1
      ? []
      : [`${file}: is in ${names.length === 0 ? 'no project' : names.join(' and ')}, see vitest.config.ts`];
  });
}

checkCommand(import.meta.url, 'projects of tests', checkTestProjects);
