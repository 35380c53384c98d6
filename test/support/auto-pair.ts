import type { Address, Connection, ConnectionOptions, ConnectOptions, ResolvedAddress } from '@verbmq/core';
import { AutoConnection, type AutoOptions, AutoTransport, type PathInfo } from '@verbmq/core/auto';
import {
  type ConnectVerdict,
  type FrameInfo,
  type FrameVerdict,
  type MemoryFaults,
  MemoryNetwork,
  MemoryTransport,
} from '@verbmq/core/memory-transport';
import { onTestFinished } from 'vitest';
import { abortAfterTest, nextConnection } from './pair.js';

/** What happens to one path, changed while the test runs. */
export class Cable implements MemoryFaults {
  /** What becomes of each frame from now on. */
  verdict: FrameVerdict = 'deliver';
  connecting: ConnectVerdict = 'accept';
  /** When each attempt to connect was made, by `performance.now()`. */
  readonly attempts: number[] = [];
  readonly network = new MemoryNetwork();

  /** Whoever sends next finds that the connection is lost; so do those that are opened until `heal`. */
  cut(): void {
    this.verdict = 'lose';
    this.connecting = 'refuse';
  }

  /** The connections that there are break when they are used next; new ones work. */
  breakOnce(): void {
    const broken = new Set<number>();
    const limit = this.#newest;
    this.verdict = 'deliver';
    this.#judge = (id) => {
      if (id > limit || broken.has(id)) return undefined;
      broken.add(id);
      return 'lose';
    };
  }

  /** Frames vanish, and nobody is told. */
  silence(): void {
    this.verdict = 'drop';
  }

  heal(): void {
    this.verdict = 'deliver';
    this.connecting = 'accept';
  }

  /** The connection that was opened last, as far as it was heard of. */
  #newest = 0;
  #judge: (id: number) => FrameVerdict | undefined = () => undefined;

  /** What becomes of single frames, in place of `verdict`. */
  verdictOf: ((frame: FrameInfo) => FrameVerdict) | undefined;
  /** What becomes of single attempts, in place of `connecting`. */
  connectTo: ((address: ResolvedAddress) => ConnectVerdict) | undefined;

  readonly frame = (frame: FrameInfo): FrameVerdict => {
    this.#newest = Math.max(this.#newest, frame.connectionId);
    return this.#judge(frame.connectionId) ?? this.verdictOf?.(frame) ?? this.verdict;
  };
  readonly connect = (address: ResolvedAddress): ConnectVerdict => {
    this.attempts.push(performance.now());
    return this.connectTo?.(address) ?? this.connecting;
  };
}

export interface AutoWorld {
  readonly base: Cable;
  readonly fast: Cable;
  readonly clientTransport: AutoTransport;
  readonly serverTransport: AutoTransport;
  readonly url: string;
}

/** Times that let a test see within milliseconds what takes seconds in life. */
export const QUICK: AutoOptions = {
  minFastRetryMs: 1,
  maxFastRetryMs: 20,
  maxResumeDelayMs: 20,
  fastTimeoutMs: 100,
};

export interface AutoWorldOptions {
  readonly both?: AutoOptions;
  readonly client?: AutoOptions;
  readonly server?: AutoOptions;
  readonly without?: 'client' | 'server';
  /** Whose end of the fast path has no one-sided memory. */
  readonly withoutMemory?: 'client' | 'server' | 'both';
  /** The longest message of the fast path, where it is shorter than what is asked of it. */
  readonly fastMessageBytes?: number;
}

/** Two auto transports in one process, upon two cables that can be cut. */
export function autoWorld({
  both,
  client,
  server,
  without,
  withoutMemory,
  fastMessageBytes,
}: AutoWorldOptions = {}): Omit<AutoWorld, 'url'> {
  const base = new Cable();
  const fast = new Cable();
  class FastTransport extends MemoryTransport {
    override connect(address: Address, options?: ConnectOptions): Promise<Connection> {
      const limit = fastMessageBytes === undefined ? {} : { maxMessageBytes: fastMessageBytes };
      return super.connect(address, { ...options, ...limit });
    }
  }
  const make = (side: 'client' | 'server', own: AutoOptions | undefined): AutoTransport => {
    const oneSided = withoutMemory !== side && withoutMemory !== 'both';
    const transport = new AutoTransport({
      ...QUICK,
      ...both,
      ...own,
      base: new MemoryTransport({ network: base.network, faults: base }),
      fast:
        without === side ? undefined : new FastTransport({ network: fast.network, faults: fast, oneSided }),
    });
    onTestFinished(() => transport.close());
    return transport;
  };
  return {
    base,
    fast,
    serverTransport: make('server', server),
    clientTransport: make('client', client),
  };
}

export interface AutoPair extends AutoWorld {
  readonly client: AutoConnection;
  readonly server: AutoConnection;
}

export async function autoPair(
  options: AutoWorldOptions & { readonly connection?: ConnectionOptions } = {},
): Promise<AutoPair> {
  const world = autoWorld(options);
  const listener = await world.serverTransport.listen({ host: 'here', port: 1 }, options.connection ?? {});
  const accepted = nextConnection(listener);
  const client = asAuto(
    abortAfterTest(await world.clientTransport.connect(listener.url, options.connection)),
  );
  const server = asAuto(abortAfterTest(await accepted));
  return { ...world, url: listener.url, client, server };
}

export function asAuto(connection: Connection): AutoConnection {
  if (!(connection instanceof AutoConnection)) throw new Error('this is not an auto connection');
  return connection;
}

/** Resolves when the path of a connection is as `wanted` says. */
export function pathIs(connection: AutoConnection, wanted: (path: PathInfo) => boolean): Promise<PathInfo> {
  return new Promise((resolve) => {
    if (wanted(connection.path)) {
      resolve(connection.path);
      return;
    }
    const detach = connection.onPath((path) => {
      if (!wanted(path)) return;
      detach();
      resolve(path);
    });
  });
}

export const onFast = (connection: AutoConnection): Promise<PathInfo> =>
  pathIs(connection, ({ fast, flowing }) => fast && flowing);
export const onBase = (connection: AutoConnection): Promise<PathInfo> =>
  pathIs(connection, ({ fast, flowing }) => !fast && flowing);

/**
 * Lets a connection leave its fast path, on odd rounds, and return to it, on even ones.
 * @param takeAway what breaks the path
 * @param giveBack after it a new one can be had
 */
export function leaveAndReturn(
  client: AutoConnection,
  takeAway: () => unknown,
  giveBack: () => unknown,
): (round: number) => Promise<void> {
  return async (round) => {
    if (round % 2 === 0) {
      await onFast(client);
      return;
    }
    const taken = takeAway();
    await onBase(client);
    await taken;
    await giveBack();
  };
}
