// A failed completion amid good ones of other connections: those are all taken, and so is what came before it on its own.
import { type Connection, VerbmqError } from '@verbmq/core';
import { describe, expect, test } from 'vitest';
import { settled } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { nextConnection, type Pair } from '../support/pair.js';
import {
  CompletionStatus,
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

const EACH = 6;
/** Few, so that with those that are flushed all completions are less than a batch. */
const RECEIVE_SLOTS = 8;

await onSimulatedDevice('rxe', (device) => {
  const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

  interface Ends {
    readonly client: Connection;
    readonly server: Connection;
    /** What the client has received. */
    readonly numbers: number[];
  }

  /** Connections of the same two transports, whose completions come through one queue on each side. */
  async function connections(pair: Pair, count: number): Promise<Ends[]> {
    const made: Ends[] = [{ client: pair.client, server: pair.server, numbers: [] }];
    while (made.length < count) {
      const accepted = nextConnection(pair.listener);
      const client = await pair.clientTransport.connect(pair.listener.url);
      made.push({ client, server: await accepted, numbers: [] });
    }
    for (const { client, numbers } of made) client.onMessage(({ data }) => numbers.push(numberOf(data)));
    return made;
  }

  describe.each<Personality>(TESTED_PERSONALITIES)('a batch of a device like %s', (personality) => {
    describe.each(Object.entries(CompletionStatus))('in which a send fails (%s)', (_name, status) => {
      // The device completes the work of the oldest connection first.
      test.each([
        ['before', 0],
        ['amid', 1],
        ['behind', 2],
      ])('%s good ones of other connections', async (_where, failing) => {
        resetForTest(device, personality);
        const options = { heartbeatIntervalMs: 0, receiveSlots: RECEIVE_SLOTS, polling: 'event' } as const;
        const pair = await simulatedPair(device, options);
        const all = await connections(pair, 3);
        const queues = device.live('cq');
        device.hold('receive-completions');
        device.hold('send-completions');
        for (const { server } of all) for (const n of upTo(EACH)) await server.send(numbered(n));
        await until(() => device.held('receive-completions') >= 3 * EACH);
        const { client, server, numbers } = all[failing] as Ends;
        const flushed = device.count('flushed');
        device.failWork(status);
        const send = settled(client.send(numbered(99)));
        await until(() => device.count('flushed') > flushed + EACH);
        for (const point of ['receive-completions', 'send-completions'] as const) device.release(point);
        for (const info of await Promise.all([client.closed, server.closed]))
          expect(info.error).toBeInstanceOf(VerbmqError);
        expect(['ok', (await client.closed).error?.code]).toContain(await send);
        expect(numbers).toEqual(upTo(EACH));
        for (const good of all) {
          if (good.client === client) continue;
          await until(() => good.numbers.length >= EACH);
          expect(good.numbers).toEqual(upTo(EACH));
          await Promise.all([good.client.send(numbered(7)), good.server.send(numbered(EACH))]);
          expect((await take(good.server, 1)).map(numberOf)).toEqual([7]);
          await until(() => good.numbers.length > EACH);
        }
        expect(device.live('cq')).toBe(queues);
        await expectNothingLeft(device, pair);
      });
    });
  });
});
