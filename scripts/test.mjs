#!/usr/bin/env node
/**
 * `npm test`: everything, from a fresh checkout on. See CONTRIBUTING.md.
 *
 * Prints what each part does while it works, then every skip with its reason, every failure, a table, and as the last
 * line the totals. The exit status is 1 when anything failed.
 */

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './lib/paths.mjs';
import { endAllProcesses } from './lib/run-process.mjs';
import { PartContext } from './test/context.mjs';
import { parseOptions, usage } from './test/options.mjs';
import { groupParts, parts, selectParts } from './test/parts.mjs';
import { report } from './test/report.mjs';
import { count, failed, skipped, totalsLine } from './test/results.mjs';

/**
 * @param {import('./test/parts.mjs').Part} part
 * @param {import('./test/parts.mjs').Session} session
 * @returns {Promise<import('./test/results.mjs').PartResult>}
 */
async function runPart(part, session) {
  const start = Date.now();
  console.log(`${part.name}: ${part.title}`);
  let outcomes;
  try {
    const reason = part.inGuest ? session.noGuestBecause : undefined;
    outcomes =
      reason === undefined
        ? await part.run(new PartContext(part.name), session)
        : [skipped(part.title, reason)];
  } catch (error) {
    outcomes = [failed(part.title, /** @type {Error} */ (error).stack ?? String(error))];
  }
  if (outcomes.length === 0) {
    outcomes = [failed(part.title, 'the part ran no tests')];
  }
  if (count(outcomes).failed > 0 && part.prepares === 'all') {
    session.stop = true;
  }
  if (count(outcomes).failed > 0 && part.prepares === 'guest') {
    session.noGuestBecause = 'the guest could not be prepared: see the failure';
  }
  const seconds = (Date.now() - start) / 1000;
  console.log(`${part.name}: ${totalsLine(count(outcomes))} in ${seconds.toFixed(1)} s`);
  return { name: part.name, outcomes, seconds };
}

/** How many parts of a group run at a time. A guest keeps little more than one processor busy. */
const lanes = 2;

/**
 * @param {import('./test/parts.mjs').Part[]} group
 * @param {import('./test/parts.mjs').Session} session
 * @returns {Promise<import('./test/results.mjs').PartResult[]>} in the group's order
 */
async function runGroup(group, session) {
  /** @type {import('./test/results.mjs').PartResult[]} */
  const results = [];
  let next = 0;
  const lane = async () => {
    while (next < group.length) {
      const index = next++;
      results[index] = await runPart(group[index], session);
    }
  };
  await Promise.all(Array.from({ length: Math.min(lanes, group.length) }, lane));
  return results;
}

async function main() {
  const options = parseOptions(
    process.argv.slice(2),
    parts.map(({ name }) => name),
  );
  if (typeof options === 'string') {
    console.error(`${options}\n${usage(parts)}`.trim());
    return options === '' ? 0 : 2;
  }
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
    process.once(signal, () => {
      console.error(`the tests were ended by ${signal}`);
      endAllProcesses();
      process.exit(1);
    });
  }
  rmSync(join(root, '.cache/test'), { recursive: true, force: true });
  const selected = selectParts(parts, options.only);
  /** @type {import('./test/parts.mjs').Session} */
  const session = {
    requireGuest: options.requireGuest,
    names: selected.map(({ name }) => name),
    noGuestBecause: undefined,
    stop: false,
  };
  const results = [];
  for (const group of groupParts(selected)) {
    results.push(...(await runGroup(group, session)));
    if (session.stop) {
      console.log('nothing else can run');
      break;
    }
  }
  console.log(report(results));
  return count(results.flatMap(({ outcomes }) => outcomes)).failed > 0 ? 1 : 0;
}

process.exitCode = await main();
