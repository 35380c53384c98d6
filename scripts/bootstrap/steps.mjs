/**
 * The steps from a fresh checkout to one that runs. Each does nothing, quickly, when its work is done already.
 *
 * Node's own modules only: nothing is installed yet.
 */

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { thisDistribution } from '../../test/vm/distribution.mjs';
import { GuestError } from '../../test/vm/guest-error.mjs';
import { ensureImage } from '../../test/vm/image.mjs';
import { ensurePackages, runPackages } from '../../test/vm/packages.mjs';
import { peersDirectory, root, tools } from '../lib/paths.mjs';
import { runProcess } from '../lib/run-process.mjs';
import { BootstrapError } from './bootstrap-error.mjs';
import { dependenciesInstalled, recordDependencies } from './dependency-stamp.mjs';

/** What building the addon needs. The headers are in the packages of the guest, whose run needs them as well. */
const addonPackages = ['g++', 'make', 'python3'];

/** @returns {string[]} everything that `--guest` installs where it is missing @throws {GuestError} on an unknown system */
export const guestPackages = () => [...addonPackages, ...runPackages, ...thisDistribution().buildPackages];

/** How long a step may be silent before it says that it is alive. */
const aliveEveryMs = 10_000;

const minutes = 60_000;

const log = (/** @type {string} */ text) => console.error(`bootstrap: ${text}`);

/**
 * Runs a step's process; its output is shown when it fails.
 * @param {string} title @param {string} command @param {string[]} args
 * @param {{timeLimitMs: number, cwd?: string, env?: NodeJS.ProcessEnv}} settings
 * @returns {Promise<string>} what it printed
 * @throws {BootstrapError}
 */
async function step(title, command, args, settings) {
  const start = Date.now();
  const seconds = () => Math.round((Date.now() - start) / 1000);
  const alive = setInterval(() => log(`${title} … ${seconds()} s`), aliveEveryMs);
  const result = await runProcess(command, args, { cwd: root, ...settings });
  clearInterval(alive);
  if (result.failure !== undefined) {
    throw new BootstrapError(`${title} failed (${result.failure}):\n${result.output.trim()}`);
  }
  if (seconds() > 2) {
    log(`${title}: done in ${seconds()} s`);
  }
  return result.output;
}

/**
 * Installs the dependencies that a project's lockfile names, with the pnpm that package.json names.
 * @param {string} [project] its directory
 */
export async function installDependencies(project = root) {
  if (dependenciesInstalled(project)) {
    return;
  }
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const title = `installing the dependencies${project === root ? '' : ` of ${relative(root, project)}`}`;
  log(`${title} with ${manifest.packageManager}`);
  await step(
    title,
    'npx',
    ['--yes', manifest.packageManager, 'install', '--frozen-lockfile'],
    // pnpm asks nobody before it replaces a damaged node_modules.
    { cwd: project, timeLimitMs: 10 * minutes, env: { ...process.env, CI: 'true' } },
  );
  recordDependencies(project);
}

/** Compiles what is run: the packages, the examples and the benchmark. Tests are compiled as they are run. */
export async function buildTypeScript() {
  if (!existsSync(join(root, 'packages/core/dist/index.js'))) {
    log('compiling the TypeScript');
  }
  await step(
    'compiling the TypeScript',
    process.execPath,
    [tools.tsc, '--build', 'packages/verbmq', 'bench', 'examples'],
    { timeLimitMs: 10 * minutes },
  );
}

/**
 * Builds the native addon. Without a compiler, or without the headers, the package goes without it: RDMA's probe then
 * says so.
 * @param {{required: boolean}} options
 */
export async function buildAddon({ required }) {
  const output = await step(
    'building the native addon',
    process.execPath,
    ['packages/native/scripts/install.mjs', ...(required ? ['--required'] : [])],
    { timeLimitMs: 10 * minutes },
  );
  if (!output.includes('up to date')) {
    log(output.trim());
  }
}

/**
 * Installs what `bench --peers` compares with, and compiles it. A nats-server that cannot be installed is left out: the benchmark
 * says so.
 */
export async function preparePeers() {
  await installDependencies(peersDirectory);
  await step('compiling the peers', process.execPath, [tools.tsc, '--build', peersDirectory], {
    timeLimitMs: 10 * minutes,
  });
  if (spawnSync('nats-server', ['--version']).status === 0) {
    return;
  }
  try {
    ensurePackages(['nats-server'], log);
  } catch (error) {
    if (!(error instanceof GuestError)) {
      throw error;
    }
    log(`nats is left out. ${error.message}`);
  }
}

/** Installs the system packages that the guest needs, and makes its kernel. */
export async function prepareGuest() {
  try {
    ensurePackages(guestPackages(), log);
    ensureImage(log);
  } catch (error) {
    if (error instanceof GuestError) {
      throw new BootstrapError(error.message);
    }
    throw error;
  }
}
