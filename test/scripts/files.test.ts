import { describe, expect, it } from 'vitest';
import { checkFiles, longFiles } from '../../scripts/check-files.mjs';
import { makeTree } from './fixture.js';

const lines = (count: number, first = ''): string => `${first}${'x;\n'.repeat(count)}`;

describe('the check of files', () => {
  it('accepts a lockfile of hashes', () => {
    const lockfile = "packages:\n  'a@1.0.0':\n    resolution: {integrity: sha512-x==}\n";
    expect(checkFiles(makeTree({ 'pnpm-lock.yaml': lockfile, '.npmrc': 'engine-strict=true\n' }))).toEqual(
      [],
    );
  });

  it('finds a place to download from in the lockfile', () => {
    const tarball = 'tarball: https://example.org/a-1.0.0.tgz';
    const tree = makeTree({ 'pnpm-lock.yaml': `packages:\n  'a@1.0.0':\n    resolution: {${tarball}}\n` });
    expect(checkFiles(tree)).toEqual([
      `pnpm-lock.yaml:3: names a place to download from: resolution: {${tarball}}`,
    ]);
  });

  it('finds the choice of a registry', () => {
    const tree = makeTree({
      '.npmrc': '@a:registry=https://example.org\n',
      'pnpm-workspace.yaml': 'packages: []\nregistry: x\n',
    });
    expect(checkFiles(tree)).toEqual([
      '.npmrc:1: chooses a registry: @a:registry=https://example.org',
      'pnpm-workspace.yaml:2: chooses a registry: registry: x',
    ]);
  });

  it('lists long files that do not say why', () => {
    const tree = makeTree({
      'src/fits.ts': lines(300),
      'src/long.ts': lines(301),
      'src/reason.ts': lines(400, '// Longer than 300 lines: a table of contents.\n'),
      'node_modules/a/long.js': lines(500),
    });
    expect(longFiles(tree)).toEqual(['src/long.ts: 301 lines']);
  });
});
