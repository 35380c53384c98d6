import { setTimeout as delay } from 'node:timers/promises';
import type { Connection } from '@verbmq/core';
import { AutoConnection } from '@verbmq/core/auto';
import { expect } from 'vitest';
import { pathIs } from './auto-pair.js';
import { turns } from './expectations.js';

/** `length` bytes that differ from place to place and from seed to seed, so that a shifted or mixed-up piece shows. */
export function pattern(length: number, seed = 0): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = (seed * 2654435761 + length) >>> 0 || 1;
  for (let i = 0; i < length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    bytes[i] = state;
  }
  return bytes;
}

/** A prime number, so that no piece of a message of usual length looks like another one. */
const PERIOD_BYTES = 1_048_573;

/** As `pattern`, made quickly for many megabytes. */
export function repeated(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  const part = pattern(PERIOD_BYTES);
  for (let at = 0; at < length; at += PERIOD_BYTES) bytes.set(part.subarray(0, length - at), at);
  return bytes;
}

export function sameBytes(actual: Uint8Array, expected: Uint8Array): boolean {
  return Buffer.from(actual.buffer, actual.byteOffset, actual.byteLength).equals(
    Buffer.from(expected.buffer, expected.byteOffset, expected.byteLength),
  );
}

/** A failure that does not print megabytes. */
export function expectBytes(actual: Uint8Array, expected: Uint8Array): void {
  expect(actual.byteLength).toBe(expected.byteLength);
  expect(sameBytes(actual, expected), `${expected.byteLength} bytes arrive unchanged`).toBe(true);
}

/** A message of 4 bytes that says `n`. */
export function numbered(n: number, length = 4): Uint8Array {
  const bytes = new Uint8Array(length);
  new DataView(bytes.buffer).setUint32(0, n);
  return bytes;
}

export function numberOf(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(0);
}

/** Takes `count` messages by iteration, and copies them. */
export async function take(connection: Connection, count: number): Promise<Uint8Array[]> {
  const taken: Uint8Array[] = [];
  if (count === 0) return taken;
  for await (const message of connection) {
    taken.push(new Uint8Array(message.data));
    if (taken.length === count) break;
  }
  if (taken.length < count)
    throw new Error(`the connection ended after ${taken.length} of ${count} messages`);
  return taken;
}

/** Takes all messages until the connection ends, and copies them. */
export async function takeAll(connection: Connection): Promise<Uint8Array[]> {
  const taken: Uint8Array[] = [];
  for await (const message of connection) taken.push(new Uint8Array(message.data));
  return taken;
}

/** By then a peer in the same process, or the same guest, has lent what it lends. */
const LENDING_MS = 20;

/** In so many turns of the event loop two ends of this process have told each other what they have to tell. */
const TELLING_TURNS = 20;

/**
 * Sends to a peer that does not read until there is no more room and nothing is on its way out: from then on only the
 * peer's reading can make room. One that shares its receive slots lends some more when it sees that they are wanted, a path that is
 * left, or gets back credit, takes more soon: so that is waited for. Answers with the number of messages sent.
 */
export async function fill(connection: Connection, message: (n: number) => Uint8Array): Promise<number> {
  let sent = 0;
  const finds = (): boolean => {
    const room = connection.trySend(message(sent));
    if (room) sent++;
    return room;
  };
  for (;;) {
    while (finds());
    if (connection.stats().bytesBuffered > 0) {
      await connection.drain();
      continue;
    }
    if (connection instanceof AutoConnection)
      await Promise.race([pathIs(connection, ({ flowing }) => flowing), connection.closed]);
    await delay(LENDING_MS);
    let room = false;
    for (let turn = 0; turn < TELLING_TURNS && !room; turn++) {
      await turns(1);
      room = finds();
    }
    if (!room) return sent;
  }
}

/** Sends the server so many messages, one at a time, and expects each back. */
export async function expectEchoes(
  { client, server }: { readonly client: Connection; readonly server: Connection },
  count: number,
): Promise<void> {
  const stop = server.onMessage((message) => void server.send(message.data));
  for (let n = 0; n < count; n++) {
    const echo = take(client, 1);
    await client.send(numbered(n));
    expect((await echo).map(numberOf)).toEqual([n]);
  }
  stop();
}
