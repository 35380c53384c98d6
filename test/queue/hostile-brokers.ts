import type { Connection } from '@verbmq/core';
import { type Queue, queue } from '@verbmq/core/queue';
import { rpcStats } from '@verbmq/core/rpc';
import { describe, expect, test } from 'vitest';
import { BODIES, ITEM_TO_CALLER, POLLUTION, RAW, RESULT } from '../rpc/frames.js';
import { verbmqErrorOf } from '../rpc/support.js';
import { take } from '../support/messages.js';
import { connectPair } from '../support/pair.js';
import type { SetUp } from '../support/set-up.js';

/** A job as msgpack has it, of a body that is given in bytes. */
const jobOf = (...body: number[]): number[] => [0x94, 1, 1, 0xc0, ...body];

/** What a broker can say in frames to a client of its queues, and what becomes of it. */
export function hostileBrokers(setUp: SetUp): void {
  async function attacked(): Promise<{
    near: Connection;
    jobs: Queue<unknown>;
    raw: Connection;
    say(...frame: number[]): void;
  }> {
    const { client: near, server: raw } = await connectPair(setUp);
    const say = (...frame: number[]): void => void raw.trySend(Uint8Array.from(frame));
    return { near, jobs: queue<unknown>(near, 'jobs'), raw, say };
  }

  describe('a broker that is an attack', () => {
    test.each(BODIES)('%s as work ends that consumer alone', async (_, body) => {
      const { near, jobs, raw, say } = await attacked();
      const read = verbmqErrorOf(jobs.consume().next());
      const working = verbmqErrorOf(jobs.work(() => {}));
      await take(raw, 2);
      for (const id of [1, 2]) say(ITEM_TO_CALLER, 0, id, ...jobOf(...body));
      for (const error of await Promise.all([read, working])) expect(error.code).toBe('ERR_VERBMQ_DECODE');
      expect(rpcStats(near).pendingCalls).toBe(0);
      expect(near.state).toBe('open');
    });

    test.each(BODIES)('%s as the answer to a push fails it alone', async (_, body) => {
      const { near, jobs, raw, say } = await attacked();
      const [failing, taken] = [verbmqErrorOf(jobs.push(1)), jobs.push(2)];
      await take(raw, 2);
      say(RESULT, 0, 1, ...body);
      say(RESULT, 0, 2, 0xd4, 0, 0); // `undefined`
      expect((await failing).code).toBe('ERR_VERBMQ_DECODE');
      await taken;
      expect(near.state).toBe('open');
    });

    test('__proto__ in work changes nothing', async () => {
      const { jobs, raw, say } = await attacked();
      const next = jobs.consume().next();
      await take(raw, 1);
      say(ITEM_TO_CALLER, 0, 1, ...jobOf(...POLLUTION));
      const body = (await next).value?.body;
      expect(Object.getPrototypeOf(body)).toBe(Object.prototype);
      expect('polluted' in (body as object)).toBe(false);
      expect('polluted' in {}).toBe(false);
    });

    test('an answer to nobody ends the connection, and whatever waits', async () => {
      const { near, jobs, raw, say } = await attacked();
      const waiting = [jobs.consume().next(), jobs.work(() => {}), jobs.push(1)].map((each) =>
        verbmqErrorOf(each),
      );
      await take(raw, 3);
      say(RESULT, 0, 99, 1);
      for (const error of await Promise.all(waiting))
        expect(error).toMatchObject({ code: 'ERR_VERBMQ_PROTOCOL', outcome: 'unknown' });
      await near.closed;
      expect(rpcStats(near)).toMatchObject({ pendingCalls: 0, backlogBytes: 0 });
    });

    test('work without end for one who does not read ends the connection', async () => {
      const { near, jobs, raw } = await attacked();
      const consumed = jobs.consume();
      const first = consumed.next();
      await take(raw, 1);
      const job = [...jobOf(0xc5, 0x20, 0), ...new Array<number>(0x2000).fill(7)];
      const frame = Uint8Array.from([ITEM_TO_CALLER, 0, 1, ...job]);
      await raw.send(frame);
      expect((await first).value?.attempt).toBe(1);
      while (raw.state === 'open') await raw.send(frame).catch(() => {});
      expect((await near.closed).error?.code).toBe('ERR_VERBMQ_ABORTED');
      expect((await verbmqErrorOf(consumed.next())).code).toBe('ERR_VERBMQ_PROTOCOL');
    });

    test('bytes where a job is due end that consumer alone', async () => {
      const { near, jobs, raw, say } = await attacked();
      const read = verbmqErrorOf(jobs.consume().next());
      await take(raw, 1);
      say(ITEM_TO_CALLER, RAW, 1, 1, 2, 3);
      expect((await read).code).toBe('ERR_VERBMQ_PROTOCOL');
      expect(near.state).toBe('open');
    });
  });
}
