import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { root } from './paths.mjs';

/**
 * Makes a check that is a module a command as well: it prints what the check found, and exits with 1 when that is
 * anything. Does nothing where the module was imported.
 *
 * @param {string} moduleUrl the check's `import.meta.url`
 * @param {string} title
 * @param {(root: string) => string[]} check gives the problems of a checkout
 */
export function checkCommand(moduleUrl, title, check) {
  if (process.argv[1] === undefined || realpathSync(process.argv[1]) !== fileURLToPath(moduleUrl)) {
    return;
  }
  const problems = check(resolve(process.argv[2] ?? root));
  for (const problem of problems) {
    console.error(problem);
  }
  console.log(`${title}: ${problems.length === 0 ? 'kept' : `${problems.length} problems`}`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
