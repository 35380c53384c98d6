import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { root } from '../../scripts/lib/paths.mjs';
import { bundlePackages } from '../../scripts/test/bundled-packages.mjs';

interface Manifest {
  readonly exports: Readonly<Record<string, { readonly default?: string }>>;
  readonly dependencies: Readonly<Record<string, string>>;
}
const manifestOf = (directory: string): Manifest =>
  JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));

async function bundles() {
  const directory = mkdtempSync(join(tmpdir(), 'verbmq-bundles-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const bundled = await bundlePackages(directory);
  const packages = bundled.map(({ files, built }) => {
    const source = dirname(built);
    return { files, built, source, name: basename(source), manifest: manifestOf(source) };
  });
  return { directory, packages };
}

/** Paths of the programs below a directory. */
const programs = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.js'));

it('the packages are bundled into few files, with each entry in its place and each class once', async () => {
  const { packages } = await bundles();
  expect(packages).toHaveLength(3);
  for (const { files, built, source, manifest } of packages) {
    const entries = Object.values(manifest.exports).flatMap(({ default: file }) => file ?? []);
    const there = programs(files);
    expect(there).toEqual(expect.arrayContaining(entries.map((file) => relative(built, join(source, file)))));
    expect(there.length).toBeLessThan(programs(built).length / 3);
    const classes = (below: string, pattern: RegExp): number =>
      programs(below).flatMap((path) => readFileSync(join(below, path), 'utf8').match(pattern) ?? []).length;
    expect(classes(files, /^var [\w$]+ = class\b/gm)).toBe(classes(built, /^(export )?class /gm));
  }
});

/**
 * What a program gets by importing the packages by their names: for each name that they export which of all that was exported before is
 * the same, and of a class which one it extends.
 */
const REPORT = `
  const first = new Map();
  const nameOf = (value) => first.get(value) ?? typeof value;
  const report = {};
  for (const entry of process.argv.slice(1)) {
    const exported = await import(entry);
    for (const name of Object.keys(exported).sort()) {
      const value = exported[name];
      const isObject = typeof value === 'function' || (typeof value === 'object' && value !== null);
      if (isObject && !first.has(value)) first.set(value, entry + ' ' + name);
      report[entry + ' ' + name] = [nameOf(value), isObject ? nameOf(Object.getPrototypeOf(value)) : ''];
    }
  }
  console.log(JSON.stringify(report));
`;

it('who imports the bundles gets what the packages export, and nothing of it twice', async () => {
  const { directory, packages } = await bundles();
  // As if they were installed: what they import is another of them, or lies beside them.
  const installed = join(directory, 'node_modules');
  for (const { files, source, name, manifest } of packages) {
    const place = join(installed, '@verbmq', name);
    mkdirSync(place, { recursive: true });
    renameSync(files, join(place, 'dist'));
    copyFileSync(join(source, 'package.json'), join(place, 'package.json'));
    for (const dependency of Object.keys(manifest.dependencies)) {
      if (dependency.startsWith('@verbmq/')) continue;
      symlinkSync(join(source, 'node_modules', dependency), join(installed, dependency));
    }
  }
  const entries = packages.flatMap(({ name, manifest }) =>
    Object.keys(manifest.exports)
      .filter((entry) => !entry.endsWith('.json'))
      .map((entry) => `@verbmq/${name}${entry.slice(1)}`),
  );
  const importedFrom = (cwd: string): unknown =>
    JSON.parse(
      execFileSync(process.execPath, ['--input-type=module', '--eval', REPORT, ...entries], {
        cwd,
        encoding: 'utf8',
      }),
    );
  const imported = importedFrom(directory);
  expect(imported).toEqual(importedFrom(join(root, 'packages/verbmq')));
  expect(imported).toMatchObject({
    '@verbmq/tcp-fallback TcpTransport': ['@verbmq/tcp-fallback TcpTransport', '@verbmq/core Transport'],
  });
});
