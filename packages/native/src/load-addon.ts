import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Addon } from './binding.js';

/** The addon, or why there is none. */
export type LoadedAddon =
  | { readonly addon: Addon }
  | { readonly addon: undefined; readonly reason: string; readonly remedy: string };

const packageDirectory = dirname(dirname(fileURLToPath(import.meta.url)));
const BUILD = buildCommand(packageDirectory);
const REBUILD = `build it with \`${BUILD}\` (on Debian and Ubuntu: apt-get install g++ make python3 libibverbs-dev librdmacm-dev)`;

/** What builds the addon of the package in `directory`: where that was installed npm does, and in a checkout of verbmq its bootstrap. */
export function buildCommand(directory: string): string {
  return directory.split(sep).includes('node_modules') ? 'npm rebuild @verbmq/native' : 'npm run bootstrap';
}

let loaded: LoadedAddon | undefined;

/**
 * Loads the addon once. The environment variable `VERBMQ_ADDON=asan` takes the build with sanitizers
 * (`scripts/install.mjs --sanitize`), for this project's own tests.
 */
export function loadAddon(): LoadedAddon {
  loaded ??= load(process.env.VERBMQ_ADDON === 'asan' ? 'build-asan' : 'build');
  return loaded;
}

/** @param outputDirectory as `scripts/install.mjs` leaves it, relative to the package. */
export function load(outputDirectory: string): LoadedAddon {
  const directory = join(packageDirectory, outputDirectory);
  const binary = outputDirectory === 'build' ? 'Release' : join('build', 'Release');
  try {
    const require = createRequire(import.meta.url);
    return { addon: require(join(directory, binary, 'verbmq_native.node')) as Addon };
  } catch (error) {
    const record = readBuildRecord(directory);
    if (record?.built === false) {
      return {
        addon: undefined,
        reason: `the native addon was not built: ${record.reason}`,
        remedy: record.remedy === undefined ? REBUILD : `${record.remedy}, then \`${BUILD}\``,
      };
    }
    const detail = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error);
    return { addon: undefined, reason: `the native addon cannot be loaded: ${detail}`, remedy: REBUILD };
  }
}

interface BuildRecord {
  readonly built: boolean;
  readonly reason?: string;
  readonly remedy?: string;
}

function readBuildRecord(directory: string): BuildRecord | undefined {
  try {
    return JSON.parse(readFileSync(join(directory, 'verbmq-build.json'), 'utf8')) as BuildRecord;
  } catch {
    return undefined;
  }
}
