/**
 * The packages as users get them: packed, checked, installed, imported.
 */

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageDirectories, root, tools } from '../lib/paths.mjs';

const minute = 60_000;

/** @param {string} directory */
const readManifest = (directory) => JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));

/**
 * @param {import('./context.mjs').PartContext} context
 * @returns {Promise<import('./results.mjs').Outcome[]>}
 */
export async function checkPackages(context) {
  const work = mkdtempSync(join(tmpdir(), 'verbmq-packages-'));
  const outcomes = [];
  try {
    const packages = packageDirectories()
      .map((directory) => ({ directory, manifest: readManifest(directory) }))
      .filter(({ manifest }) => !manifest.private);
    for (const { directory, manifest } of packages) {
      outcomes.push(
        await context.check(
          `${manifest.name}: pack`,
          'npx',
          ['--yes', readManifest(root).packageManager, 'pack', '--pack-destination', work],
          { cwd: directory, timeLimitMs: 2 * minute },
        ),
      );
    }
    for (const { manifest } of packages) {
      const tarball = join(work, tarballName(manifest));
      outcomes.push(
        await context.check(
          `${manifest.name}: publint`,
          process.execPath,
          [tools.publint, 'run', tarball, '--strict'],
          { timeLimitMs: minute },
        ),
        await context.check(
          `${manifest.name}: are the types wrong`,
          process.execPath,
          [tools.attw, tarball, '--profile', 'esm-only', '--no-definitely-typed'],
          { timeLimitMs: minute },
        ),
      );
    }
    outcomes.push(
      ...(await installAndImport(
        context,
        work,
        packages.map(({ manifest }) => manifest),
      )),
    );
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return outcomes;
}

/** The name that packing gives. @param {{name: string, version: string}} manifest */
const tarballName = ({ name, version }) => `${name.replace(/^@/, '').replace('/', '-')}-${version}.tgz`;

/**
 * What a user does: a package whose list of files forgets one shows itself here.
 * @param {import('./context.mjs').PartContext} context @param {string} work @param {any[]} manifests
 */
async function installAndImport(context, work, manifests) {
  const tarballs = readdirSync(work).filter((name) => name.endsWith('.tgz'));
  const dependencies = Object.fromEntries(
    manifests.map((manifest) => [manifest.name, `file:${tarballName(manifest)}`]),
  );
  writeFileSync(
    join(work, 'package.json'),
    JSON.stringify({ name: 'user-of-verbmq', private: true, type: 'module', dependencies }),
  );
  const entryPoints = manifests.flatMap(({ name, exports }) =>
    Object.keys(exports)
      .filter((key) => !key.endsWith('.json'))
      .map((key) => name + key.slice(1)),
  );
  writeFileSync(
    join(work, 'import.js'),
    entryPoints.map((name) => `await import(${JSON.stringify(name)});\n`).join(''),
  );
  return [
    await context.check(
      `${tarballs.length} packages: install`,
      'npm',
      ['install', '--no-audit', '--no-fund', '--ignore-scripts'],
      { cwd: work, timeLimitMs: 3 * minute },
    ),
    await context.check(`${entryPoints.length} entry points: import`, process.execPath, ['import.js'], {
      cwd: work,
      timeLimitMs: minute,
    }),
  ];
}
