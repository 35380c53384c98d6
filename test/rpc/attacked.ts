import type { Connection } from '@verbmq/core';
import { type RpcServer, serve } from '@verbmq/core/rpc';
import { take } from '../support/messages.js';
import { connectPair } from '../support/pair.js';
import type { SetUp } from '../support/set-up.js';
import { memorySetUp } from '../support/transports/memory.js';
import { service } from './frames.js';

export interface Attacked {
  readonly raw: Connection;
  readonly far: Connection;
  readonly server: RpcServer;
  send(...frame: number[]): void;
}

const memory = memorySetUp();

/** A server, and a connection to it in memory on which anything can be said. */
export const attacked = (options = {}): Promise<Attacked> => attackedOver(memory, options);

/** The same over any transport. */
export async function attackedOver(setUp: SetUp, options = {}): Promise<Attacked> {
  const { client: raw, server: far } = await connectPair(setUp);
  const server = serve(far, service, options);
  await take(raw, 1); // the names of the methods
  return { raw, far, server, send: (...frame) => void raw.trySend(Uint8Array.from(frame)) };
}
