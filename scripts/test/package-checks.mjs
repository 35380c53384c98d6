/**
 * The packages as users get them: packed and checked here; user-project.mjs installs them.
 */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageDirectories, root, tools } from '../lib/paths.mjs';
import { packedFilesProblems } from './packed-files.mjs';
import { failed, passed } from './results.mjs';
import { checkUserProject } from './user-project.mjs';

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
      const problems = packedFilesProblems(tarball);
      const title = `${manifest.name}: what is in it`;
      outcomes.push(
        problems.length === 0 ? passed(title) : failed(title, problems.join('\n')),
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
    const tarballs = packages.map(({ manifest }) => ({
      manifest,
      tarball: join(work, tarballName(manifest)),
    }));
    outcomes.push(...(await checkUserProject(context, tarballs)));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return outcomes;
}

/** The name that packing gives. @param {{name: string, version: string}} manifest */
const tarballName = ({ name, version }) => `${name.replace(/^@/, '').replace('/', '-')}-${version}.tgz`;
