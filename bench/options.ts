import { parseArgs } from 'node:util';
import { RATIOS } from './ratios.js';
import { PLACEMENTS, type Placement } from './run/placement.js';
import {
  CONTESTANTS,
  type ContestantName,
  isPeerScenario,
  SCENARIOS,
  type ScenarioName,
} from './scenarios.js';

export interface BenchOptions {
  /** Whether rpc is compared with what people use today, or else transports with each other. */
  readonly peers: boolean;
  readonly rounds: number;
  /** Measuring time of one contestant in one scenario, once. */
  readonly seconds: number;
  readonly warmUpSeconds: number;
  /** Whether to measure again what something else on the machine disturbed. */
  readonly repeatDisturbed: boolean;
  readonly scenarios: readonly ScenarioName[];
  /** `undefined`: those that suit the machine. */
  readonly placements: readonly Placement[] | undefined;
  readonly contestants: readonly ContestantName[];
  /** File that the results go to. */
  readonly json: string | undefined;
  /** Directory for CPU profiles of every Node process that is measured. */
  readonly profile: string | undefined;
  /** Whether this is Soft-RoCE in the guest, for which RDMA's goals are. */
  readonly guest: boolean;
}

export const BENCH_USAGE = `usage: npm run bench -- [options]      (npm run bench:guest -- [options]: the same in the guest, with RDMA)

  --peers          compare calls with ws, zeromq, nats, gRPC and others, which are installed for it, instead of transports
  --rounds N       times that each contestant is measured in each scenario (default 9, of peers 5, in the guest 3)
  --seconds S      measuring time each time (default 1, in the guest 1.5)
  --only NAMES     of the scenarios, placements and contestants only these, with commas between them (default all; in the
                   guest those that its goals need)
  --quick          few and short rounds: to see that it works, not to compare
  --json FILE      write everything to FILE
  --profile DIR    write CPU profiles of the measured Node processes to DIR

scenarios:   ${scenariosOf(false).join(', ')}
  --peers:   ${scenariosOf(true).join(', ')}
placements:  ${PLACEMENTS.join(', ')}
contestants: ${Object.keys(CONTESTANTS).join(', ')}`;

/** A mistake in the command line. */
export class UsageError extends Error {}

/** Whether the command line asks for {@link BENCH_USAGE} and nothing else. */
export function wantsHelp(args: readonly string[]): boolean {
  return args.includes('--help') || args.includes('-h');
}

/** @throws UsageError */
export function parseBenchOptions(args: readonly string[]): BenchOptions {
  let values: ReturnType<typeof parse>;
  try {
    values = parse(args);
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
  const { guest, quick } = values;
  if (guest && values.peers) throw new UsageError('--peers is for the machine itself');
  const named = splitOnly(values.only, values.peers);
  const only = guest && values.only === '' ? { ...named, ...NEEDED_IN_GUEST } : named;
  return {
    peers: values.peers,
    rounds: positive('--rounds', values.rounds, quick ? 2 : guest ? 3 : values.peers ? 5 : 9),
    seconds: positive('--seconds', values.seconds, quick ? 0.3 : guest ? 1.5 : 1),
    // Until the code is compiled and the figures are steady; under software emulation that takes its time.
    warmUpSeconds: guest ? 6 : quick ? 0.2 : 0.4,
    repeatDisturbed: !quick,
    scenarios: only.scenarios,
    placements: only.placements,
    contestants: only.contestants,
    json: values.json,
    profile: values.profile,
    guest,
  };
}

/**
 * What the goals for the guest need, and the third way of polling beside the other two. Everything else would take more than
 * twice the time there, and says nothing about RDMA that is not measured better on the machine itself.
 */
const NEEDED_IN_GUEST = neededInGuest();

function neededInGuest(): Pick<BenchOptions, 'scenarios' | 'contestants'> {
  const ratios = RATIOS.filter(({ where }) => where === 'guest');
  const contestants = new Set<ContestantName>(['rdma-busy', ...ratios.flatMap(({ of, to }) => [of, ...to])]);
  return {
    scenarios: [...new Set(ratios.map(({ scenario }) => scenario))],
    contestants: [...contestants],
  };
}

function scenariosOf(peers: boolean): ScenarioName[] {
  return (Object.keys(SCENARIOS) as ScenarioName[]).filter((name) => isPeerScenario(name) === peers);
}

function parse(args: readonly string[]) {
  return parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      peers: { type: 'boolean', default: false },
      only: { type: 'string', default: '' },
      quick: { type: 'boolean', default: false },
      json: { type: 'string' },
      profile: { type: 'string' },
      guest: { type: 'boolean', default: false },
    },
  }).values;
}

function positive(name: string, text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (!(value > 0 && value < Number.POSITIVE_INFINITY) || (name === '--rounds' && !Number.isInteger(value))) {
    throw new UsageError(`${name} needs a positive number, not '${text}'`);
  }
  return value;
}

/** Sorts the names by what they name. Of a kind that is not named, all are meant. */
function splitOnly(
  text: string,
  peers: boolean,
): Pick<BenchOptions, 'scenarios' | 'placements' | 'contestants'> {
  const names = new Set(text.split(',').filter((name) => name !== ''));
  const take = <Name extends string>(all: readonly Name[]): Name[] | undefined => {
    const named = all.filter((name) => names.delete(name));
    return named.length > 0 ? named : undefined;
  };
  const scenarios = scenariosOf(peers);
  const contestants = Object.keys(CONTESTANTS) as ContestantName[];
  const taken = {
    scenarios: take(scenarios) ?? scenarios,
    placements: take(PLACEMENTS),
    contestants: take(contestants) ?? contestants,
  };
  if (names.size > 0) throw new UsageError(`--only: there is no ${[...names].join(', ')}`);
  return taken;
}

/** Runs a program of the benchmark with the arguments of this process; a mistake in them is answered with the usage. */
export async function runCommand(main: (args: string[]) => Promise<void>): Promise<void> {
  try {
    await main(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(`${error.message}\n\n${BENCH_USAGE}`);
    process.exitCode = 2;
  }
}
