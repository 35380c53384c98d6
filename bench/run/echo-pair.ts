import type { NodeContestantName } from '../contestants/index.js';
import { connectionsOf } from '../scenarios.js';
import { EchoChild } from './echo-child.js';
import type { LoadResult, LoadSpec } from './load-result.js';
import type { Placement } from './placement.js';

export interface PairResult extends LoadResult {
  /** CPU time of server and client together, in microseconds; `cpuMicros` is the client's. */
  readonly pairCpuMicros: number;
}

export interface PairOptions {
  readonly placement?: Placement;
  /** Further command line options of both Node processes. */
  readonly nodeOptions?: readonly string[];
}

/** What makes a connection hold all that it needs for messages. */
const FIRST_EXCHANGE = { bytes: 64, inFlight: 2, durationMs: 0 };

/** A server and a client of one contestant, connected, in two fresh processes. */
export class EchoPair {
  readonly #server: EchoChild;
  readonly #client: EchoChild;
  /** Where there are many connections: what one holds in the process in which that is more, in KiB. */
  connectionKib: number | undefined;

  /** Starts the two processes and connects them. */
  static async start(contestant: NodeContestantName, options: PairOptions = {}): Promise<EchoPair> {
    const pair = new EchoPair(contestant, options);
    try {
      await pair.#connect(connectionsOf(contestant));
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

  async #connect(connections: number): Promise<void> {
    const address = await this.#server.ask('listen');
    const before = connections > 1 ? await this.#memory() : undefined;
    await this.#client.ask('connect', { address, connections });
    if (before === undefined) return;
    await this.load(FIRST_EXCHANGE);
    const growth = (await this.#memory()).map((bytes, index) => bytes - (before[index] ?? 0));
    this.connectionKib = Math.max(...growth) / connections / 1024;
  }

  #memory(): Promise<number[]> {
    return Promise.all([this.#server.ask('memory'), this.#client.ask('memory')]);
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
