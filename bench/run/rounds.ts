import type { BenchOptions } from '../options.js';
import {
  type ContestantName,
  type Measures,
  type Sample,
  SCENARIOS,
  type ScenarioName,
} from '../scenarios.js';
import type { Disturbance } from './machine-load.js';
import { measure } from './measure.js';
import type { Placement } from './placement.js';
import { Yardstick } from './yardstick.js';

/** A scenario with its processes in one place: the contestants of a block are measured one right after the other. */
export interface Block {
  readonly scenario: ScenarioName;
  readonly placement: Placement;
  readonly contestants: readonly ContestantName[];
}

export interface Failure {
  readonly scenario: ScenarioName;
  readonly placement: Placement;
  readonly contestant: ContestantName;
  readonly round: number;
  readonly error: string;
}

export interface RoundsResult {
  readonly samples: readonly Sample[];
  readonly failures: readonly Failure[];
  /** Measurements that were thrown away and made again, because something else took CPU time, or the machine was slow. */
  readonly repeated: number;
  /** Samples that were disturbed still after the last attempt. */
  readonly disturbed: number;
}

/**
 * Shares of the machine's CPU time from which on a measurement is made again. In the guest there are no foreign
 * processes, but under software emulation the kernel's own threads take more than a little.
 */
const STOLEN_LIMIT = 0.01;
const FOREIGN_LIMIT = { machine: 0.05, guest: 1 };
/** Share of its speed that the machine may lack before or after. A processor's turbo makes less of a difference. */
const LACKING_LIMIT = 0.25;
/** The longest wait for a machine that has become slow. */
const RECOVERY_LIMIT_MS = 20_000;
const ATTEMPTS = 3;
/** On a machine that is never quiet, a run may take so much longer for it. */
const REPEATED_SHARE = 0.5;

/** Measures all blocks in each round; so whatever changes over minutes meets all contestants alike. */
export async function runRounds(
  blocks: readonly Block[],
  options: BenchOptions,
  onBlock: (round: number, block: Block) => void,
): Promise<RoundsResult> {
  const yardstick = new Yardstick();
  const samples: Sample[] = [];
  const failures: Failure[] = [];
  const measurements = options.rounds * blocks.reduce((sum, { contestants }) => sum + contestants.length, 0);
  let repeated = 0;
  let disturbed = 0;
  for (let round = 1; round <= options.rounds; round++) {
    for (const block of blocks) {
      onBlock(round, block);
      const { scenario, placement } = block;
      for (const contestant of rotated(block.contestants, round)) {
        try {
          const attemptsLeft = options.repeatDisturbed
            ? Math.min(ATTEMPTS, 1 + measurements * REPEATED_SHARE - repeated)
            : 1;
          const quiet = await measureQuietly(block, contestant, options, { yardstick, attemptsLeft });
          repeated += quiet.attempts - 1;
          if (quiet.disturbed > 1) disturbed++;
          samples.push({ scenario, placement, contestant, round, measures: quiet.measures });
        } catch (error) {
          failures.push({ scenario, placement, contestant, round, error: (error as Error).message });
        }
      }
    }
  }
  return { samples, failures, repeated, disturbed };
}

interface QuietMeasures {
  readonly measures: Measures;
  /** Above 1: more than is tolerated. */
  readonly disturbed: number;
  readonly attempts: number;
}

async function measureQuietly(
  { scenario, placement }: Block,
  contestant: ContestantName,
  options: BenchOptions,
  { yardstick, attemptsLeft }: { yardstick: Yardstick; attemptsLeft: number },
): Promise<QuietMeasures> {
  const { seconds, warmUpSeconds, profile } = options;
  const nodeOptions = profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}/${contestant}`];
  let quietest: Omit<QuietMeasures, 'attempts'> | undefined;
  for (let attempts = 1; ; attempts++) {
    const lackingBefore = yardstick.read();
    const measureOptions = { placement, seconds, warmUpSeconds, nodeOptions };
    const { measures, disturbance } = await measure(SCENARIOS[scenario], contestant, measureOptions);
    const lacking = Math.max(lackingBefore, yardstick.read());
    const disturbed = Math.max(disturbedBy(disturbance, options), lacking / LACKING_LIMIT);
    if (quietest === undefined || disturbed < quietest.disturbed) quietest = { measures, disturbed };
    if (quietest.disturbed <= 1 || attempts >= attemptsLeft) return { ...quietest, attempts };
    await yardstick.waitUntilLackingAtMost(LACKING_LIMIT, RECOVERY_LIMIT_MS);
  }
}

/** Above 1: more than is tolerated. */
function disturbedBy({ stolen, foreign }: Disturbance, { guest }: BenchOptions): number {
  const foreignLimit = guest ? FOREIGN_LIMIT.guest : FOREIGN_LIMIT.machine;
  return Math.max(stolen / STOLEN_LIMIT, foreign / foreignLimit);
}

/** Begins with another contestant in each round, so that none always runs after the same one. */
function rotated<T>(list: readonly T[], by: number): T[] {
  const start = by % list.length;
  return [...list.slice(start), ...list.slice(0, start)];
}
