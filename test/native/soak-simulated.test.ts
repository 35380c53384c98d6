// Traffic of every kind at once over a device that is never punctual: what no single fault shows.
import type { Connection, Message } from '@verbmq/core';
import { describe, expect, test } from 'vitest';
import { sameBytes } from '../support/messages.js';
import { nextConnection, type Pair } from '../support/pair.js';
import { onSimulatedDevice, type Personality, resetForTest } from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';

/** A small generator of its own, so that a seed repeats a run. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

/** The message number `n` of a stream: its length and its bytes follow from both. */
function messageOf(stream: number, n: number, largest: number): Uint8Array {
  const random = randomFrom(stream * 7919 + n + 1);
  random(2);
  const length = random(4) === 0 ? random(largest + 1) : random(300);
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) bytes[i] = stream * 31 + n * 7 + i;
  return bytes;
}

/** Sends `count` messages: awaited, in bursts, by lease, as they come. */
async function send(connection: Connection, stream: number, count: number): Promise<void> {
  const random = randomFrom(stream + 99);
  const pending: Promise<void>[] = [];
  for (let n = 0; n < count; n++) {
    const bytes = messageOf(stream, n, connection.maxMessageBytes);
    if (random(3) === 0) {
      const lease = connection.allocate(bytes.byteLength);
      lease.data.set(bytes);
      pending.push(connection.send(lease));
    } else {
      pending.push(connection.send(bytes));
    }
    if (random(20) === 0) await Promise.all(pending.splice(0));
  }
  await Promise.all(pending);
}

/** Receives `count` messages, keeping some of them for a while; each must still be whole when it is let go. */
function receive(connection: Connection, stream: number, count: number): Promise<void> {
  const random = randomFrom(stream + 7);
  const kept: { message: Message; n: number }[] = [];
  let next = 0;
  const check = ({ message, n }: { message: Message; n: number }): boolean =>
    sameBytes(message.data, messageOf(stream, n, connection.maxMessageBytes));
  return new Promise((resolve, reject) => {
    connection.onMessage((message) => {
      const entry = { message, n: next++ };
      if (!check(entry)) return reject(new Error(`message ${entry.n} of stream ${stream} is damaged`));
      if (random(4) === 0) kept.push({ message: message.retain(), n: entry.n });
      while (kept.length > 20 || (next === count && kept.length > 0)) {
        const [released] = kept.splice(random(kept.length), 1);
        if (!check(released!)) return reject(new Error(`kept message ${released!.n} was overwritten`));
        released!.message.release();
      }
      if (next === count) resolve();
    });
    void connection.closed.then(({ error }) => {
      if (next < count) reject(error ?? new Error(`ended after ${next} of ${count} messages`));
    });
  });
}

async function oneMore(pair: Pair): Promise<Pair> {
  const accepted = nextConnection(pair.listener);
  const client = await pair.clientTransport.connect(pair.listener.url);
  return { ...pair, client, server: await accepted };
}

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(['rxe', 'siw', 'mlx'])('a soak on a device like %s', (personality) => {
    test.each([1, 2, 3])('every byte right, every order right, nothing left (seed %i)', async (seed) => {
      resetForTest(device, personality);
      const first = await simulatedPair(device, {
        polling: (['event', 'adaptive', 'busy'] as const)[seed % 3]!,
        peerTimeoutMs: 10_000,
        // Both ways of sending, and retained messages beyond what may stay registered.
        maxMessageBytes: 100_000,
        largeMemoryBytes: 500_000,
      });
      device.set('jitter_seed', seed);
      device.set('completion_jitter_us', 400);
      device.set('cq_event_delay_us', 100);
      device.set('missing_send_slots', 60);
      const pairs = [first];
      for (let n = 1; n < 6; n++) pairs.push(await oneMore(first));
      const count = 400;
      // One connection ends badly on each side; the others do not notice.
      const [doomed, ...healthy] = pairs;
      const ended = Promise.all([doomed!.client.closed, doomed!.server.closed]);
      let seen = 0;
      doomed!.server.onMessage(() => {
        if (++seen === 50) doomed!.server.abort('in the middle');
      });
      void send(doomed!.client, 0, count).catch(() => {});
      await Promise.all(
        healthy.flatMap(({ client, server }, index) => [
          receive(server, 2 * index + 1, count),
          receive(client, 2 * index + 2, count),
          send(client, 2 * index + 1, count),
          send(server, 2 * index + 2, count),
        ]),
      );
      await ended;
      expect(device.count('rnr-answers')).toBe(0);
      expect(device.count('cq-overruns')).toBe(0);
      await expectNothingLeft(device, first);
    });
  });
});
