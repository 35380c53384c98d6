// Longer than 300 lines: it is one list of what a peer can try.
import { MsgpackCodec } from '@verbmq/core/codec';
import { QueueBroker, type QueueBrokerOptions, queue } from '@verbmq/core/queue';
import { rpcStats, serve } from '@verbmq/core/rpc';
import { describe, expect, test } from 'vitest';
import {
  BODIES,
  brokenText,
  ERROR,
  ITEM,
  METADATA,
  named,
  POLLUTION,
  packedText,
  RESULT,
  STREAM_IN,
  STREAM_OUT,
  text,
} from '../rpc/frames.js';
import { collect, until } from '../rpc/support.js';
import { turns } from '../support/expectations.js';
import { take } from '../support/messages.js';
import { connectPair } from '../support/pair.js';
import { type SetUp, scaled } from '../support/set-up.js';
import { type Attacked, anything, attackedBy, first, honest, silence } from './attacked.js';
import { take as takeJobs } from './support.js';

/** A push as msgpack has it, of a body that is given in bytes. */
const pushOf = (name: string, ...body: number[]): number[] => [
  0x82,
  ...packedText('queue'),
  ...packedText(name),
  ...packedText('body'),
  ...body,
];

/** What a peer of a broker can try, and what becomes of it. */
export function hostilePeers(setUp: SetUp): void {
  const attacked = (options?: QueueBrokerOptions): Promise<Attacked> =>
    attackedBy(() => connectPair(setUp), options);

  describe('a push that is an attack', () => {
    test.each(BODIES)('%s fails that call alone, and nothing is queued', async (_, body) => {
      const { broker, raw } = await attacked();
      await take(raw, 1); // the names of the methods
      raw.trySend(Uint8Array.from(named(1, 'queue:push', 0, ...pushOf('q', ...body))));
      raw.trySend(Uint8Array.from(named(2, 'queue:push', 0, ...pushOf('q', 7))));
      const [refusal, answer] = await take(raw, 2);
      expect([...(refusal as Uint8Array).subarray(0, 3)]).toEqual([ERROR, 0, 1]);
      expect(Buffer.from(refusal as Uint8Array).toString()).toContain('ERR_VERBMQ_DECODE');
      expect([...(answer as Uint8Array)].slice(0, 3)).toEqual([RESULT, 0, 2]);
      expect(broker.stats('q')).toMatchObject({ ready: 1, pushed: 1 });
    });

    test('__proto__ as a queue or in a body is a word like any other', async () => {
      const { broker, raw } = await attacked();
      await take(raw, 1); // the names of the methods
      // As bytes, for the codec gives that key another name when it encodes.
      raw.trySend(Uint8Array.from(named(1, 'queue:push', 0, ...pushOf('__proto__', ...POLLUTION))));
      expect([...((await take(raw, 1))[0] as Uint8Array)].slice(0, 3)).toEqual([RESULT, 0, 1]);
      const body = await first(queue(await honest(setUp, broker), '__proto__'));
      expect(Object.getPrototypeOf(body)).toBe(Object.prototype);
      expect('polluted' in (body as object)).toBe(false);
      expect('polluted' in {}).toBe(false);
      expect(broker.stats('__proto__')).toMatchObject({ acknowledged: 1 });
    });
  });

  describe('a push that its broker takes', () => {
    // Else it would end every consumer that it is given to.
    test.each([undefined, { a: 'b' }])(
      'is read by consumers with the same codec, though it is at its limits: headers %o',
      async (headers) => {
        const codec = new MsgpackCodec({ maxElements: 50, maxDepth: 3 });
        const { client: near, server: far } = await connectPair(setUp);
        const broker = new QueueBroker({ codec });
        serve(far, broker.service, { codec });
        const jobs = queue<unknown>(near, 'q', { codec });
        const taken: unknown[] = [];
        for (let n = 30; n < 50; n++) {
          for (const body of [new Array(n).fill(0), Object.fromEntries(new Array(n >> 1).fill(0).entries())])
            await jobs.push(body, { headers }).then(
              () => taken.push(body),
              ({ code }) => expect(code).toBe('ERR_VERBMQ_DECODE'),
            );
        }
        await jobs.push([[0]], { headers }).then(() => taken.push([[0]]));
        expect(taken.length).toBeGreaterThan(20);
        expect(taken.length).toBeLessThan(40);
        expect(await takeJobs(jobs.consume(), taken.length)).toEqual(taken);
        expect(broker.stats('q')).toMatchObject({ redelivered: 0, ready: 0 });
      },
    );

    test('is no longer as a job than one may be, however it was sent', async () => {
      const { broker, raw } = await attacked({ maxJobBytes: 10_000 });
      await take(raw, 1); // the names of the methods
      const bodies = [brokenText(5000), brokenText(3000), [0xc5, 0x2e, 0xe0, ...new Array(12_000).fill(7)]];
      for (const [i, body] of bodies.entries())
        raw.trySend(Uint8Array.from(named(i + 1, 'queue:push', 0, ...pushOf('q', ...body))));
      const answers = await take(raw, 3);
      expect(answers.map((answer) => answer[0])).toEqual([ERROR, RESULT, ERROR]);
      for (const refusal of [answers[0], answers[2]])
        expect(Buffer.from(refusal as Uint8Array).toString()).toContain('ERR_VERBMQ_MESSAGE_TOO_LARGE');
      expect(broker.stats('q')).toMatchObject({ ready: 1, pushed: 1 });
      await expect(broker.push('q', new Uint8Array(12_000))).rejects.toThrow(/maxJobBytes/);
      const jobs = queue<unknown>(await honest(setUp, broker), 'q', { maxBodyBytes: 10_000 });
      expect(await first(jobs)).toBe('\ufffd'.repeat(3000));
    });
  });

  describe('a consumer that is an attack', () => {
    test('verdicts on work that nobody gave it, or twice, change nothing', async () => {
      const { broker, raw } = await attacked();
      await broker.push('q', 'first');
      await broker.push('q', 'second');
      async function* verdicts(): AsyncGenerator<unknown> {
        for (const tag of [-1, 0, 2, 99, 2 ** 53, 'x', null]) yield { tag, verdict: 'done' };
        for (let i = 0; i < 5; i++) yield { tag: 1, verdict: 'done' };
        await until(() => broker.stats('q')?.acknowledged === 1);
      }
      const options = { metadata: { queue: 'q', prefetch: '1' } };
      await collect(anything(raw)['queue:work'].stream(verdicts(), options));
      expect(broker.stats('q')).toMatchObject({ acknowledged: 1, ready: 1, unacknowledged: 0, consumers: 0 });
      expect(await first(queue(await honest(setUp, broker), 'q'))).toBe('second');
    });

    test.each(BODIES)(
      '%s as a verdict ends that consumer alone, and gives back its work',
      async (_, body) => {
        const { broker, raw, server } = await attacked();
        await broker.push('q', 'work');
        await take(raw, 1); // the names of the methods
        const metadata = [2, ...text('queue'), ...text('q'), ...text('prefetch'), ...text('1')];
        raw.trySend(Uint8Array.from(named(1, 'queue:work', METADATA | STREAM_IN | STREAM_OUT, ...metadata)));
        await until(() => broker.stats('q')?.unacknowledged === 1);
        raw.trySend(Uint8Array.from([ITEM, 0, 1, 0x82, ...packedText('tag'), ...body]));
        await until(() => broker.stats('q')?.consumers === 0);
        expect(broker.stats('q')).toMatchObject({ ready: 1, unacknowledged: 0, acknowledged: 0 });
        await until(() => server.stats().running === 0);
        expect(raw.state).toBe('open');
        expect(await first(queue(await honest(setUp, broker), 'q'))).toBe('work');
      },
    );

    test('verdicts without end take no memory, and keep nobody waiting', async () => {
      const { broker, raw, far } = await attacked();
      const metadata = [2, ...text('queue'), ...text('q'), ...text('prefetch'), ...text('1')];
      raw.trySend(Uint8Array.from(named(1, 'queue:work', METADATA | STREAM_IN | STREAM_OUT, ...metadata)));
      const item = Uint8Array.from([
        ITEM,
        0,
        1,
        0x82,
        ...packedText('tag'),
        9,
        ...packedText('verdict'),
        ...packedText('done'),
      ]);
      for (let i = 0; i < scaled(20_000) && raw.state === 'open'; i++)
        if (!raw.trySend(item)) await raw.send(item).catch(() => {});
      await broker.push('q', 1);
      expect(rpcStats(far).backlogBytes).toBeLessThan(1_000_000);
      expect(await first(queue(await honest(setUp, broker), 'other', { timeoutMs: 5000 }), broker)).toBe(
        'here',
      );
    });

    test('one that takes work and never says a word has no more of it than its prefetch', async () => {
      const { broker, raw, far } = await attacked();
      for (let n = 0; n < 1000; n++) await broker.push('q', n);
      const greedy = anything(raw)['queue:work'].stream(silence(), {
        metadata: { queue: 'q', prefetch: '3' },
      });
      for (let n = 0; n < 3; n++) await greedy.next();
      expect(broker.stats('q')).toMatchObject({ unacknowledged: 3, ready: 997 });
      raw.abort('gone');
      await far.closed;
      await until(() => broker.stats('q')?.ready === 1000);
      expect(broker.stats('q')).toMatchObject({ consumers: 0, unacknowledged: 0 });
    });
  });

  describe('a peer that pushes without end', () => {
    test.each(['refuse', 'wait', 'drop-oldest', 'drop-newest'] as const)(
      'takes no more memory than was granted: %s',
      async (whenFull) => {
        const { broker, raw } = await attacked({ maxReadyBytes: 300_000, maxHeldBytes: 1_000_000, whenFull });
        const greedy = anything(raw)['queue:work'].stream(silence(), {
          metadata: { queue: 'held', prefetch: '65536' },
        });
        greedy.next().catch(() => {});
        await until(() => broker.stats('held')?.consumers === 1);
        const refusals = new Set<unknown>();
        let most = 0;
        for (let n = 0; !refusals.has('memory'); n++) {
          const name = ['held', 'a', 'b', 'c', 'd'][n % 5];
          const push = anything(raw)['queue:push']({ queue: name, body: new Uint8Array(10_000) });
          push.then((refusal) => refusals.add((refusal as { refused?: string })?.refused)).catch(() => {});
          if (n % 20 === 0) await turns(1);
          most = Math.max(most, broker.stats().heldBytes);
        }
        await turns();
        most = Math.max(most, broker.stats().heldBytes);
        expect(most).toBeGreaterThan(900_000);
        expect(most).toBeLessThanOrEqual(1_000_000);
        for (const name of ['a', 'b', 'c', 'd'])
          expect(broker.stats(name)?.readyBytes).toBeLessThanOrEqual(300_000);
        expect(broker.stats('held')?.unacknowledged).toBeGreaterThan(10);
        raw.abort('enough');
        await until(() => broker.stats().consumers === 0);
        for (const name of ['held', 'a', 'b', 'c', 'd']) {
          const far = await honest(setUp, broker);
          const ready = broker.stats(name)?.ready ?? 0;
          let taken = 0;
          if (ready > 0) {
            for await (const job of queue(far, name).consume({ prefetch: 100 })) {
              job.acknowledge();
              if (++taken === ready) break;
            }
          }
        }
        expect(broker.stats().heldBytes).toBe(0);
      },
    );

    test('bodies count as what they take, not as what they were sent as', async () => {
      const { broker, raw } = await attacked({ maxReadyBytes: 1_000_000 });
      const push = (body: unknown) => anything(raw)['queue:push']({ queue: 'q', body });
      expect(await push(new Array<null>(100_000).fill(null))).toMatchObject({ refused: 'queue-full' });
      expect(
        await push(Object.fromEntries(Array.from({ length: 30_000 }, (_, n) => [`${n}`, []]))),
      ).toMatchObject({ refused: 'queue-full' });
      expect(await push('x'.repeat(600_000))).toMatchObject({ refused: 'queue-full' });
      expect(await push('x'.repeat(400_000))).toBe(undefined);
      expect(broker.stats('q')?.readyBytes).toBeGreaterThan(400_000);
    });

    test('cannot use up the names of queues', async () => {
      const { broker, raw } = await attacked({ maxQueues: 10 });
      for (let n = 0; n < 100; n++) {
        await queue<number>(raw, `q${n}`).push(n);
        expect(await first(queue(raw, `q${n}`))).toBe(n);
      }
      const api = anything(raw);
      for (let n = 0; n < 100; n++) {
        // Refused after the name was taken.
        const stream = api['queue:work'].stream(undefined, { metadata: { queue: `x${n}`, prefetch: '0' } });
        await expect(stream.next()).rejects.toThrow();
      }
      expect(broker.stats().queues).toBe(10);
      expect(await first(queue(await honest(setUp, broker), 'mine'), broker)).toBe('here');
    });
  });
}
