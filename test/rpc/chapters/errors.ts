import { VerbmqError } from '@verbmq/core';
import { RemoteError } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import type { SetUp } from '../../support/set-up.js';
import { collect, errorOf, served, verbmqErrorOf } from '../support.js';

export function errors(setUp: SetUp): void {
  test('keep their code, message and details, and never their stack', async () => {
    const { api } = await served(setUp, {
      now: () => {
        throw Object.assign(new Error('sold out'), {
          code: 'SOLD_OUT',
          details: { left: 0 },
          secret: 'password',
        });
      },
      later: async () => {
        throw new TypeError('not a function');
      },
      string: () => {
        throw 'just a text';
      },
      nothing: () => Promise.reject(undefined),
    });
    const error = await errorOf(api.now());
    expect(error).toBeInstanceOf(RemoteError);
    expect(error).toMatchObject({
      name: 'RemoteError',
      code: 'SOLD_OUT',
      message: 'sold out',
      details: { left: 0 },
    });
    expect(error).toMatchObject({ method: 'now' });
    expect(JSON.stringify(error) + error.message).not.toMatch(/password|chapters.errors/);
    expect(await errorOf(api.later())).toMatchObject({
      code: 'ERR_VERBMQ_RPC_HANDLER_FAILED',
      message: 'not a function',
      details: undefined,
    });
    expect((await errorOf(api.string())).message).toBe('just a text');
    expect((await errorOf(api.nothing())).message).toBe('undefined');
  });

  test('a verbmq error that a handler throws is not taken for one of this connection', async () => {
    const { api } = await served(setUp, {
      lost: () => {
        throw new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', 'that of another connection');
      },
    });
    const error = await errorOf(api.lost());
    expect(error).toBeInstanceOf(RemoteError);
    expect(error.code).toBe('ERR_VERBMQ_CONNECTION_LOST');
  });

  test('the server chooses what of them is shown', async () => {
    const { api } = await served(
      setUp,
      {
        fail: () => {
          throw new Error('SELECT * FROM secrets');
        },
      },
      {
        serve: { describeError: () => ({ code: 'INTERNAL', message: 'something went wrong', details: [1] }) },
      },
    );
    expect(await errorOf(api.fail())).toMatchObject({
      code: 'INTERNAL',
      message: 'something went wrong',
      details: [1],
    });
  });

  test('a describeError that fails itself shows nothing', async () => {
    const { api } = await served(
      setUp,
      {
        fail: () => {
          throw new Error('secret');
        },
      },
      {
        serve: {
          describeError: () => {
            throw new Error('also secret');
          },
        },
      },
    );
    expect((await errorOf(api.fail())).message).toBe('the handler failed');
  });

  test('show the stack where that was asked for', async () => {
    const service = {
      fail: () => {
        throw new Error('look here');
      },
    };
    const { api } = await served(setUp, service, { serve: { exposeStacks: true } });
    expect((await errorOf(api.fail())).message).toMatch(/look here\n +at .*errors/);
  });

  test('details that cannot be encoded or are too long are left out, a long message is cut', async () => {
    const fail = (message: string, details: unknown) => () => {
      throw Object.assign(new Error(message), { code: 'C', details });
    };
    const { api } = await served(setUp, {
      function: fail('f', { f: () => 1 }),
      long: fail('l', 'x'.repeat(100_000)),
      message: fail('ü'.repeat(100_000), 1),
      bytes: fail('b', new Uint8Array([1, 2])),
    });
    expect(await errorOf(api.function())).toMatchObject({ code: 'C', message: 'f', details: undefined });
    expect(await errorOf(api.long())).toMatchObject({ code: 'C', message: 'l', details: undefined });
    const { message, details } = await errorOf(api.message());
    expect(message).toMatch(/^ü{100,3000}$/);
    expect(details).toBe(1);
    expect(await errorOf(api.bytes())).toMatchObject({ details: Uint8Array.of(1, 2) });
  });

  test('an answer or a request that cannot be encoded fails its call alone', async () => {
    let called = 0;
    const { api } = await served(setUp, {
      function: () => () => 1,
      later: async () => Symbol('no'),
      count: (_?: unknown) => ++called,
    });
    for (const call of [api.function(), api.later()]) {
      expect(await verbmqErrorOf(call)).toMatchObject({ code: 'ERR_VERBMQ_ENCODE', outcome: 'unknown' });
    }
    expect(await verbmqErrorOf(api.count(() => 1))).toMatchObject({
      code: 'ERR_VERBMQ_ENCODE',
      outcome: undefined,
    });
    expect(await api.count()).toBe(1);
  });

  test('an answer that fails when it is looked at fails its call alone', async () => {
    const trap = (name: string | symbol, value?: unknown): object =>
      Object.defineProperty({}, name, {
        get() {
          if (value !== undefined) return value;
          throw new Error('a trap');
        },
      });
    const broken = () => {
      throw new Error('a trap');
    };
    const answers: Record<string, object> = {
      thenable: trap('then'),
      iterator: trap(Symbol.asyncIterator),
      open: trap(Symbol.asyncIterator, broken),
      next: trap(Symbol.asyncIterator, () => ({ next: () => null, return: broken })),
    };
    const { api, server } = await served(setUp, {
      now: (name: string) => answers[name],
      later: async (name: string) => answers[name],
      many: (name: string) => answers[name] as AsyncIterable<unknown>,
      one: () => 1,
    });
    for (const name of ['thenable', 'iterator']) await errorOf(api.now(name));
    for (const name of ['thenable', 'iterator']) await errorOf(api.later(name));
    for (const name of ['open', 'next']) {
      expect((await errorOf(api.now(name))).message).toMatch(/stream/);
      expect((await errorOf(api.later(name))).message).toMatch(/stream/);
      await errorOf(collect(api.many.stream(name)));
    }
    expect(await api.one()).toBe(1);
    expect(server.stats().running).toBe(0);
  });

  test('a thenable that answers twice, or answers and fails, has answered once', async () => {
    const twice = (second: 'resolve' | 'reject') => () => ({
      // biome-ignore lint/suspicious/noThenProperty: it is what the test is about
      then(resolve: (value: string) => void, reject: (error: Error) => void) {
        resolve('first');
        if (second === 'resolve') resolve('second');
        else reject(new Error('second'));
      },
    });
    const { api, server } = await served(setUp, {
      twice: twice('resolve'),
      both: twice('reject'),
      one: () => 1,
    });
    expect(await Promise.all([api.twice(), api.both(), api.one()])).toEqual(['first', 'first', 1]);
    expect(server.stats()).toMatchObject({ handled: 3, failed: 0, running: 0 });
  });
}
