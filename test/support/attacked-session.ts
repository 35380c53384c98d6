import type { Connection, Listener } from '@verbmq/core';
import type { AutoConnection, AutoOptions } from '@verbmq/core/auto';
import type { MemoryTransport } from '@verbmq/core/memory-transport';
import { expect } from 'vitest';
import { type AutoWorld, asAuto, autoWorld, onFast } from './auto-pair.js';
import { numbered, numberOf, take } from './messages.js';
import { abortAfterTest, nextConnection } from './pair.js';
import { Kind, type RawAutoPeer, rawTransport } from './raw-auto-peer.js';

/** A server with one honest session on it, and the means to attack it. */
export interface Scene extends Omit<AutoWorld, 'url'> {
  readonly listener: Listener;
  readonly client: AutoConnection;
  readonly server: AutoConnection;
  /** What reaches the server as the base transport of an attacker, and as its fast one. */
  readonly attack: MemoryTransport;
  readonly attackFast: MemoryTransport;
}

export async function scene(options: AutoOptions = {}): Promise<Scene> {
  const world = autoWorld({ server: options });
  const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
  const honest = nextConnection(listener);
  const client = asAuto(abortAfterTest(await world.clientTransport.connect(listener.url)));
  const server = asAuto(abortAfterTest(await honest));
  await onFast(client);
  const [attack, attackFast] = [rawTransport(world.base), rawTransport(world.fast)];
  return { ...world, listener, client, server, attack, attackFast };
}

/** The honest session has noticed nothing. */
export async function expectUnharmed({ client, server }: { client: AutoConnection; server: AutoConnection }) {
  expect([client.path.fast, server.path.fast]).toEqual([true, true]);
  await client.send(numbered(42));
  expect(numberOf((await take(server, 1))[0]!)).toBe(42);
}

/** The session of a raw peer, as the server's application has it. */
export async function attackerSession(
  listener: Listener,
  raw: RawAutoPeer,
  more: object = {},
): Promise<Connection> {
  const accepted = nextConnection(listener);
  await raw.open(more);
  return abortAfterTest(await accepted);
}

/** What a peer asks to resume is refused, and its connection ended. */
export async function expectRefused(raw: RawAutoPeer, resume: object, reason = 'protocol'): Promise<void> {
  raw.sendJson(Kind.HELLO, { version: 1, maxMessageBytes: 1, windowBytes: 1, nonce: '', resume });
  expect(await raw.json(Kind.REFUSE)).toMatchObject({ reason });
  await raw.connection.closed;
}
