import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { dependenciesInstalled, recordDependencies } from '../../scripts/bootstrap/dependency-stamp.mjs';
import { makeTree } from './fixture.js';

const checkout: Readonly<Record<string, string>> = {
  'package.json': JSON.stringify({ devDependencies: { typescript: '1' } }),
  'pnpm-lock.yaml': 'lockfileVersion: 9\n',
  'pnpm-workspace.yaml': 'packages: []\n',
  '.npmrc': '',
  'packages/core/package.json': JSON.stringify({ dependencies: { '@a/b': '1' } }),
  'node_modules/typescript/package.json': '{}',
  'packages/core/node_modules/@a/b/package.json': '{}',
};

describe('the stamp of the installed dependencies', () => {
  it('is not there at first, and holds once it is written', () => {
    const root = makeTree(checkout);
    expect(dependenciesInstalled(root)).toBe(false);
    recordDependencies(root);
    expect(dependenciesInstalled(root)).toBe(true);
  });

  it.each(['pnpm-lock.yaml', 'packages/core/package.json', '.npmrc'])('is void when %s changes', (path) => {
    const root = makeTree(checkout);
    recordDependencies(root);
    writeFileSync(join(root, path), `${checkout[path]} `);
    expect(dependenciesInstalled(root)).toBe(false);
  });

  it('is void when a dependency of a package is gone', () => {
    const root = makeTree(checkout);
    recordDependencies(root);
    rmSync(join(root, 'packages/core/node_modules'), { recursive: true });
    expect(dependenciesInstalled(root)).toBe(false);
  });
});
