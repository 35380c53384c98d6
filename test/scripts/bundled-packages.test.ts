import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { bundlePackages } from '../../scripts/test/bundled-packages.mjs';

/** Paths of the programs below a directory. */
const programs = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.js'));

it('the packages are bundled into few files, with each entry in its place and each class once', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'verbmq-bundles-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const bundled = await bundlePackages(directory);
  expect(bundled).toHaveLength(3);
  for (const { files, built } of bundled) {
    const { exports } = JSON.parse(readFileSync(join(built, '../package.json'), 'utf8'));
    const entries = Object.values<{ default?: string }>(exports).flatMap(({ default: file }) => file ?? []);
    const there = programs(files);
    expect(there).toEqual(
      expect.arrayContaining(entries.map((file) => relative(built, join(built, '..', file)))),
    );
    expect(there.length).toBeLessThan(programs(built).length / 3);
    const classes = (below: string, pattern: RegExp): number =>
      programs(below).flatMap((path) => readFileSync(join(below, path), 'utf8').match(pattern) ?? []).length;
    expect(classes(files, /^var \w+ = class\b/gm)).toBe(classes(built, /^(export )?class /gm));
  }
});
