/**
 * `npm run bench`: compares the transports with what people would write by hand. See docs/performance.md.
 * Exits with 1 when a contestant failed, with 2 after a mistake in the command line; a goal that is missed is a result.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { unavailableContestants } from './availability.js';
import { describeEnvironment, type Environment } from './environment.js';
import { BENCH_USAGE, type BenchOptions, parseBenchOptions, runCommand, wantsHelp } from './options.js';
import { installPeers, unavailablePeers } from './peers.js';
import { computeRatio, isAbsent, isPresent, RATIOS } from './ratios.js';
import { Progress } from './report/progress.js';
import { renderReport } from './report/render.js';
import { type BenchReport, summarise } from './report/results.js';
import { styler } from './report/style.js';
import { PLACEMENTS, type Placement, placementProblem } from './run/placement.js';
import { type Block, runRounds } from './run/rounds.js';
import { type ContestantName, isPeerScenario, SCENARIOS } from './scenarios.js';
import type { Unavailable } from './unavailable.js';

async function bench(options: BenchOptions): Promise<BenchReport> {
  const environment = describeEnvironment(options.guest ? 'guest' : 'machine');
  if (options.peers) installPeers();
  const missing = new Map([
    ...(await unavailableContestants()),
    ...(options.peers ? unavailablePeers() : []),
  ]);
  const wanted = new Set<ContestantName>(options.scenarios.flatMap((name) => SCENARIOS[name].contestants));
  const unavailable: BenchReport['unavailable'][number][] = [...missing]
    .filter(([contestant]) => wanted.has(contestant))
    .map(([contestant, why]) => ({ contestant, ...why }));
  const placements = (options.placements ?? defaultPlacements(environment, missing)).filter((placement) => {
    const reason = placementProblem(placement);
    if (reason !== undefined) unavailable.push({ placement, reason });
    return reason === undefined;
  });

  const blocks: Block[] = [];
  for (const scenario of options.scenarios) {
    const isThere = (name: ContestantName) => options.contestants.includes(name) && !missing.has(name);
    const contestants = SCENARIOS[scenario].contestants.filter(isThere);
    if (contestants.length === 0) continue;
    for (const placement of placements) blocks.push({ scenario, placement, contestants });
  }
  const progress = new Progress(process.stderr, options.rounds * blocks.length);
  const { samples, ...rest } = await runRounds(blocks, options, (round, { scenario, placement }) => {
    progress.next(`round ${round} of ${options.rounds}: ${scenario}, ${placement}`);
  });
  progress.done();

  const definitions = RATIOS.filter(({ scenario }) => isPeerScenario(scenario) === options.peers);
  const ratios = definitions.map((definition) =>
    definition.where === 'machine' && environment.where === 'guest'
      ? { name: definition.name, reason: 'its goal is for the machine itself: npm run bench' }
      : computeRatio(definition, samples, missing),
  );
  return {
    environment,
    options: { rounds: options.rounds, seconds: options.seconds },
    results: summarise(samples),
    ratios: ratios.filter(isPresent),
    absentRatios: ratios.filter(isAbsent),
    unavailable,
    ...rest,
  };
}

/** Pinning each process to a core of its own matters to those that poll; elsewhere it is as good as `free`. */
function defaultPlacements(
  { where }: Environment,
  missing: ReadonlyMap<ContestantName, Unavailable>,
): Placement[] {
  if (where === 'guest') return ['core-each']; // as all of its goals are
  return missing.has('rdma-adaptive') ? ['free', 'one-core'] : [...PLACEMENTS];
}

/** In the guest, files go to the directory that comes back to the machine. */
function outputPath({ guest }: BenchOptions, path: string | undefined): string | undefined {
  if (path === undefined || !guest) return path;
  return join(process.env.VERBMQ_GUEST_OUT ?? '', path);
}

async function main(args: readonly string[]): Promise<void> {
  if (wantsHelp(args)) {
    console.log(BENCH_USAGE);
    return;
  }
  const options = parseBenchOptions(args);
  const report = await bench({ ...options, profile: outputPath(options, options.profile) });
  console.log(renderReport(report, styler(process.stdout)));
  const file = outputPath(options, options.json);
  if (file !== undefined) writeFileSync(file, `${JSON.stringify(report, undefined, 2)}\n`);
  if (report.failures.length > 0) process.exitCode = 1;
}

await runCommand(main);
