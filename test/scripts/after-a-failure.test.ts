import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { root, tools } from '../../scripts/lib/paths.mjs';
import { runProcess } from '../../scripts/lib/run-process.mjs';
import config from '../../vitest.config.js';
import { makeTree } from './fixture.js';

const projects = config.test?.projects as { readonly test: { readonly setupFiles?: string[] } }[];

/** A test that starts something, ends as `end` says, and whose connections end after it. */
const leaving = (what: string, end = ''): string => `
test('${what}', () => {
  let fail;
  new Promise((_, reject) => { fail = reject; });
  onTestFinished(async () => {
    fail(new Error('left by ${what}'));
    await new Promise((resolve) => setTimeout(resolve));
  });
  ${end}
});`;

const tests = `import { onTestFinished, test } from 'vitest';
${leaving('one that fails', "throw new Error('this is why');")}
${leaving('one that passes after it')}
test('one that rejects while it runs, and fails', async () => {
  Promise.reject(new Error('left in its middle'));
  await new Promise((resolve) => setTimeout(resolve));
  throw new Error('this is why');
});`;

test('what a failed test has started and left is no error besides; all else that nobody looks at is', async () => {
  const [first, ...others] = projects.map((project) => project.test.setupFiles);
  for (const setupFiles of others) expect(setupFiles).toEqual(first);
  const setupFiles = first?.map((file) => join(root, file));
  const tree = makeTree({
    'one.test.mjs': tests,
    'vitest.config.mjs': `export default { test: { setupFiles: ${JSON.stringify(setupFiles ?? [])} } };`,
  });
  symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'));
  const { status, output } = await runProcess(process.execPath, [tools.vitest, 'run', '--root', tree], {
    cwd: tree,
    env: { ...process.env, NO_COLOR: '1', FORCE_COLOR: undefined },
    timeLimitMs: 35_000,
  });
  expect(status).toBe(1);
  expect(output).toContain('2 failed | 1 passed');
  expect([...output.matchAll(/^Error: (left .*)$/gm)].map((match) => match[1]).sort()).toEqual([
    'left by one that passes after it',
    'left in its middle',
  ]);
});
