import type { NodeContestantName } from '../contestants/index.js';
import { EchoChild } from './echo-child.js';
import type { LoadResult, LoadSpec } from './load.js';
import type { Placement } from './placement.js';

export interface PairResult extends LoadResult {
  /** CPU time of server and client together, in microseconds. */
  readonly pairCpuMicros: number;
}

export interface PairOptions {
  readonly placement?: Placement;
  /** Further command line options of both Node processes. */
  readonly nodeOptions?: readonly string[];
}

/** A server and a client of one contestant, connected, in two fresh processes. */
export class EchoPair {
  readonly #server: EchoChild;
  readonly #client: EchoChild;

  /** Starts the two processes and connects them. */
  static async start(contestant: NodeContestantName, options: PairOptions = {}): Promise<EchoPair> {
    const pair = new EchoPair(contestant, options);
    try {
      await pair.#client.ask('connect', await pair.#server.ask('listen'));
      return pair;
    } catch (error) {
      await pair.stop().catch(() => {}); // the first error is the one to report
      throw error;
    }
  }

  private constructor(contestant: NodeContestantName, { placement = 'free', nodeOptions }: PairOptions) {
    this.#server = new EchoChild(contestant, 'server', placement, nodeOptions);
    this.#client = new EchoChild(contestant, 'client', placement, nodeOptions);
  }

  /** Produces load for its time and measures it. Nothing else is on its way before or after. */
  async load(spec: LoadSpec): Promise<PairResult> {
    const before = await this.#server.ask('cpu');
    const result = await this.#client.ask('load', spec, spec.durationMs + LOAD_LIMIT_MS);
    const after = await this.#server.ask('cpu');
    return { ...result, pairCpuMicros: result.cpuMicros + after - before };
  }

  /** Ends both processes. Rejects when one of them did not end in order. */
  async stop(): Promise<void> {
    const ended = await Promise.allSettled([this.#client.stop(), this.#server.stop()]);
    const failed = ended.find((outcome) => outcome.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }
}

/** What a load may take longer than its time, for the answers that are on their way then. */
const LOAD_LIMIT_MS = 20_000;
