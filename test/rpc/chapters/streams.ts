import type { CallContext, ServerStream } from '@verbmq/core/rpc';
import { rpcStats } from '@verbmq/core/rpc';
import { expect, expectTypeOf, test } from 'vitest';
import { turns } from '../../support/expectations.js';
import type { SetUp } from '../../support/set-up.js';
import { collect, errorOf, fired, from, Gate, served, until, verbmqErrorOf } from '../support.js';

const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

export function streams(setUp: SetUp): void {
  test('a server stream, from nothing to many items', async () => {
    const { api } = await served(setUp, {
      async *count(to: number) {
        for (let i = 0; i < to; i++) yield i;
      },
    });
    for (const count of [0, 1, 10, 5000])
      expect(await collect(api.count.stream(count))).toEqual(numbers(count));
    expectTypeOf(api.count.stream).returns.toEqualTypeOf<ServerStream<number>>();
  });

  test('a client stream', async () => {
    const { api } = await served(setUp, {
      sum: async (source: AsyncIterable<number>) => {
        let sum = 0;
        for await (const n of source) sum += n;
        return sum;
      },
    });
    expect(await api.sum(from([]))).toBe(0);
    expect(await api.sum(from(numbers(5000)))).toBe((5000 * 4999) / 2);
    expectTypeOf(api.sum).returns.toEqualTypeOf<Promise<number>>();
  });

  test('streams in both directions, each item answered before the next is sent', async () => {
    const { api } = await served(setUp, {
      async *double(source: AsyncIterable<number>) {
        for await (const n of source) yield n * 2;
      },
    });
    const answers: number[] = [];
    let next = new Gate();
    async function* questions(): AsyncGenerator<number> {
      for (let i = 1; i <= 20; i++) {
        next = new Gate();
        yield i;
        await next.opened;
      }
    }
    for await (const answer of api.double.stream(questions())) {
      answers.push(answer);
      next.open();
    }
    expect(answers).toEqual(numbers(20).map((n) => (n + 1) * 2));
  });

  test('items of undefined, null and bytes', async () => {
    const items = [undefined, null, 0, '', new Uint8Array(0), new Uint8Array(3)];
    const { api } = await served(setUp, {
      async *all() {
        yield* items;
      },
    });
    const answers = await collect(api.all.stream());
    expect(answers.length).toBe(items.length);
    expect(answers.slice(0, 4)).toEqual(items.slice(0, 4));
    expect((answers[5] as Uint8Array).byteLength).toBe(3);
  });

  test('a stream whose reader does not read is held back, and others are not', async () => {
    let made = 0;
    const { api } = await served(setUp, {
      async *endless() {
        for (;;) {
          made++;
          yield new Uint8Array(1000);
        }
      },
      small: () => 'small',
    });
    const stream = api.endless.stream();
    await stream.next();
    await until(() => made > 60);
    let before = -1;
    while (before !== made) {
      before = made;
      await turns(50);
    }
    expect(made).toBeLessThan(400); // a window of 256 KiB, and half of it again
    expect(await api.small()).toBe('small');
    for (let i = 0; i < 500; i++) await stream.next();
    expect(made).toBeGreaterThan(500);
    await stream.return();
  });

  test('a client stream whose handler does not read is held back', async () => {
    let made = 0;
    const gate = new Gate();
    const { api } = await served(setUp, {
      async late(source: AsyncIterable<Uint8Array>) {
        await gate.opened;
        let count = 0;
        for await (const _ of source) count++;
        return count;
      },
    });
    async function* source(): AsyncGenerator<Uint8Array> {
      for (; made < 1000; made++) yield new Uint8Array(1000);
    }
    const call = api.late(source());
    await until(() => made > 60);
    let before = -1;
    while (before !== made) {
      before = made;
      await turns(50);
    }
    expect(made).toBeLessThan(400);
    gate.open();
    expect(await call).toBe(1000);
  });

  test('a reader that leaves ends the call: the source cleans up, the signal fires', async () => {
    const cleaned = new Gate();
    let context: CallContext | undefined;
    const { api, near, far } = await served(setUp, {
      async *endless(_: undefined, call: CallContext) {
        context = call;
        try {
          for (let i = 0; ; i++) yield i;
        } finally {
          cleaned.open();
        }
      },
    });
    for await (const n of api.endless.stream()) if (n === 3) break;
    await cleaned.opened;
    expect(context?.signal.aborted).toBe(true);
    await until(() => rpcStats(far).runningCalls === 0);
    expect(rpcStats(near).pendingCalls).toBe(0);

    const stream = api.endless.stream();
    await stream.next();
    const waiting = collect(stream);
    stream.cancel('enough');
    expect(await verbmqErrorOf(waiting)).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED' });
  });

  test('a source that waits for ever is left behind when its reader leaves', async () => {
    const aborted = new Gate();
    const { api, far } = await served(setUp, {
      async *stuck(_: undefined, { signal }: CallContext) {
        signal.addEventListener('abort', () => aborted.open());
        yield 1;
        await new Promise(() => {});
      },
    });
    const stream = api.stuck.stream();
    expect(await stream.next()).toEqual({ done: false, value: 1 });
    await stream.return();
    await aborted.opened;
    await until(() => rpcStats(far).runningCalls === 0);
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });

  test('a handler that leaves a client stream stops its source', async () => {
    const cleaned = new Gate();
    const { api, near } = await served(setUp, {
      first: async (source: AsyncIterable<number>) => {
        for await (const n of source) return n;
        return -1;
      },
    });
    async function* endless(): AsyncGenerator<number> {
      try {
        for (let i = 7; ; i++) yield i;
      } finally {
        cleaned.open();
      }
    }
    expect(await api.first(endless())).toBe(7);
    await cleaned.opened;
    expect(rpcStats(near).pendingCalls).toBe(0);
  });

  test('a source that throws: the reader gets what came before, and then the error', async () => {
    const { api } = await served(setUp, {
      async *some() {
        yield 1;
        yield 2;
        throw Object.assign(new Error('no more'), { code: 'EMPTY' });
      },
    });
    const items: number[] = [];
    const error = await errorOf(
      (async () => {
        for await (const item of api.some.stream()) items.push(item);
      })(),
    );
    expect(items).toEqual([1, 2]);
    expect(error).toMatchObject({ name: 'RemoteError', code: 'EMPTY', message: 'no more' });
  });

  test("a caller's source that throws fails the call with its error, and the handler's stream is cancelled", async () => {
    const seen: unknown[] = [];
    const told = new Gate();
    const { api } = await served(setUp, {
      async all(source: AsyncIterable<number>, { signal }: CallContext) {
        try {
          for await (const n of source) seen.push(n);
        } catch (error) {
          await fired(signal);
          seen.push((error as { code?: string }).code);
          told.open();
        }
      },
    });
    async function* broken(): AsyncGenerator<number> {
      yield 1;
      throw new Error('the source broke');
    }
    expect((await errorOf(api.all(broken()))).message).toBe('the source broke');
    await told.opened;
    expect(seen).toEqual([1, 'ERR_VERBMQ_CANCELLED']);
  });

  test('an item that cannot be encoded fails its call alone', async () => {
    const { api } = await served(setUp, {
      async *bad() {
        yield 1 as unknown;
        yield () => 2;
      },
      one: () => 1,
      async all(source: AsyncIterable<unknown>) {
        for await (const _ of source);
      },
    });
    expect((await verbmqErrorOf(collect(api.bad.stream()))).code).toBe('ERR_VERBMQ_ENCODE');
    expect((await verbmqErrorOf(api.all(from([1, Symbol('no')])))).code).toBe('ERR_VERBMQ_ENCODE');
    expect(await api.one()).toBe(1);
  });

  test('a call of one kind to a method of the other', async () => {
    const cleaned = new Gate();
    const service = {
      one: () => 1,
      many: () => {
        const source = from([1, 2]);
        return {
          [Symbol.asyncIterator]: () => ({
            next: () => source.next(),
            return: async () => {
              cleaned.open();
              return { done: true as const, value: undefined };
            },
          }),
        };
      },
    };
    const { api } = await served(setUp, service);
    const wrong = api as unknown as { many(): Promise<unknown>; one: { stream(): ServerStream<unknown> } };
    expect((await verbmqErrorOf(wrong.many())).code).toBe('ERR_VERBMQ_RPC_MISMATCH');
    await cleaned.opened;
    expect((await verbmqErrorOf(collect(wrong.one.stream()))).code).toBe('ERR_VERBMQ_RPC_MISMATCH');
    expect(await collect(api.many.stream())).toEqual([1, 2]);
  });
}
