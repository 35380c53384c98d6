/**
 * What a user does with the packages: a project of its own, which installs them, compiles what the documents show, and runs it.
 */

import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { root, tools } from '../lib/paths.mjs';

const minute = 60_000;

/** Documents whose code is one program. */
const guides = ['connections', 'messaging', 'security'];

/** How the compilers of today look for a package. */
const resolutions = [
  { name: 'node16', options: { module: 'Node16', moduleResolution: 'Node16' } },
  { name: 'bundler', options: { module: 'ESNext', moduleResolution: 'Bundler', noEmit: true } },
];

/**
 * @param {import('./context.mjs').PartContext} context
 * @param {readonly {manifest: any, tarball: string}[]} packages
 * @returns {Promise<import('./results.mjs').Outcome[]>}
 */
export async function checkUserProject(context, packages) {
  const directory = mkdtempSync(join(tmpdir(), 'verbmq-user-'));
  try {
    const entryPoints = packages.flatMap(({ manifest: { name, exports } }) =>
      Object.keys(exports)
        .filter((key) => !key.endsWith('.json'))
        .map((key) => name + key.slice(1)),
    );
    writeProject(directory, packages, entryPoints);
    const settings = { cwd: directory, timeLimitMs: 2 * minute };
    const { execPath } = process;
    return [
      await context.check(
        `${packages.length} packages: install`,
        'npm',
        ['install', '--no-audit', '--no-fund', '--ignore-scripts'],
        { cwd: directory, timeLimitMs: 3 * minute },
      ),
      await context.check(`${entryPoints.length} entry points: import`, execPath, ['import.js'], settings),
      ...(await compileEach(context, settings)),
      await context.check('the guide to connections: run', execPath, ['out/connections.js'], settings),
      await context.check('the guide to messaging: run', execPath, ['out/messaging.js'], settings),
      await context.check(
        'the example of the README: run',
        execPath,
        [join(root, 'scripts/test/run-echo.mjs'), join(directory, 'out')],
        settings,
      ),
      await context.check('the command', execPath, ['node_modules/.bin/verbmq', 'probe'], settings),
    ];
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** @param {string} directory @param {readonly {manifest: any, tarball: string}[]} packages @param {string[]} entryPoints */
function writeProject(directory, packages, entryPoints) {
  const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  for (const { tarball } of packages) {
    copyFileSync(tarball, join(directory, basename(tarball)));
  }
  /** @param {string} name @param {string} text */
  const write = (name, text) => writeFileSync(join(directory, name), text);
  write(
    'package.json',
    JSON.stringify({
      name: 'user-of-verbmq',
      private: true,
      type: 'module',
      dependencies: Object.fromEntries(
        packages.map(({ manifest, tarball }) => [manifest.name, `file:${basename(tarball)}`]),
      ),
      devDependencies: { '@types/node': devDependencies['@types/node'] },
    }),
  );
  write('import.js', entryPoints.map((name) => `await import(${JSON.stringify(name)});\n`).join(''));
  write(
    'entries.ts',
    entryPoints.map((name, n) => `export * as entry${n} from ${JSON.stringify(name)};\n`).join(''),
  );
  for (const name of guides) {
    write(`${name}.ts`, snippets(`docs/${name}.md`).join(''));
  }
  // A guide is one program, and what the README shows is several.
  const shown = snippets('README.md').map((code, n) => ({ name: `readme-${n}`, code }));
  for (const { name, code } of shown) write(`${name}.ts`, code);
  for (const name of ['echo-service.ts', 'echo-client.ts']) {
    copyFileSync(join(root, 'examples', name), join(directory, name));
  }
  for (const { name, options } of resolutions) {
    const compilerOptions = { target: 'ES2022', types: ['node'], strict: true, outDir: 'out', ...options };
    const names = [...guides, ...shown.map((each) => each.name), 'entries', 'echo-service', 'echo-client'];
    const include = names.map((each) => `${each}.ts`);
    write(`tsconfig.${name}.json`, JSON.stringify({ compilerOptions, include }));
  }
}

/** What a document shows of code, but for whole examples, which are files. @param {string} document @returns {string[]} */
const snippets = (document) =>
  [
    ...readFileSync(join(root, document), 'utf8').matchAll(
      /(?<!^<!-- example: \S+ -->\n)^```ts\n([\s\S]*?)^```/gm,
    ),
  ].map(([, code]) => code);

/** Without `skipLibCheck`: what the packages declare is compiled too. @param {import('./context.mjs').PartContext} context @param {{cwd: string, timeLimitMs: number}} settings */
async function compileEach(context, settings) {
  const outcomes = [];
  for (const { name } of resolutions) {
    outcomes.push(
      await context.check(
        `tsc --strict, moduleResolution ${name}`,
        process.execPath,
        [tools.tsc, '--project', `tsconfig.${name}.json`],
        settings,
      ),
    );
  }
  return outcomes;
}
