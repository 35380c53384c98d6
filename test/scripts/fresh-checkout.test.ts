import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { root } from '../../scripts/lib/paths.mjs';

/** The first script that each command of package.json runs: it finds what a clone has, and not one dependency. */
const firstScripts = [
  ...new Set(
    Object.entries<string>(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).scripts).flatMap(
      ([name, command]) => (/^(lint|format)$/.test(name) ? [] : (/^node (\S+)/.exec(command)?.[1] ?? [])),
    ),
  ),
];

it.each(firstScripts)('%s begins before any dependency is installed', (script) => {
  const checkout = mkdtempSync(join(tmpdir(), 'verbmq-checkout-'));
  onTestFinished(() => rmSync(checkout, { recursive: true }));
  cpSync(join(root, 'package.json'), join(checkout, 'package.json'));
  for (const part of ['scripts', 'test/vm']) {
    cpSync(join(root, part), join(checkout, part), { recursive: true });
  }
  const { stderr } = spawnSync(process.execPath, [join(checkout, script), '--no-such-option'], {
    encoding: 'utf8',
  });
  expect(stderr).toMatch(/--no-such-option\n+usage: /);
});
