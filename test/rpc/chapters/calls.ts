import { type CallContext, client, rpcStats, serve } from '@verbmq/core/rpc';
import { expect, expectTypeOf, test } from 'vitest';
import { connectPair, listenForTest, transportForTest } from '../../support/pair.js';
import type { SetUp } from '../../support/set-up.js';
import { errorOf, Gate, served, verbmqErrorOf } from '../support.js';

export function calls(setUp: SetUp): void {
  test('an answer at once, and one that takes its time', async () => {
    const { api } = await served(setUp, {
      add: ({ a, b }: { a: number; b: number }) => a + b,
      slow: async (text: string) => {
        await new Promise((resolve) => setImmediate(resolve));
        return text.toUpperCase();
      },
      nothing: () => undefined,
    });
    expect(await api.add({ a: 1, b: 2 })).toBe(3);
    expect(await api.slow('x')).toBe('X');
    expect(await api.nothing()).toBe(undefined);
    expectTypeOf(api.add).returns.toEqualTypeOf<Promise<number>>();
    expectTypeOf(api.slow).returns.toEqualTypeOf<Promise<string>>();
    // @ts-expect-error: the body has another type
    expectTypeOf(api.add).toBeCallableWith({ a: 'one' });
  });

  test('values and bytes come back as they are', async () => {
    const { api } = await served(setUp, { echo: (body: unknown) => body });
    for (const value of [
      null,
      undefined,
      true,
      0,
      -1.5,
      '',
      'ü',
      [],
      [1, [2]],
      {},
      { a: { b: null } },
      2n ** 60n,
    ]) {
      expect(await api.echo(value)).toEqual(value);
    }
    for (const length of [0, 1, 64, 5000]) {
      const bytes = new Uint8Array(length).fill(length);
      const answer = (await api.echo(bytes)) as Uint8Array;
      expect(answer).toBeInstanceOf(Uint8Array);
      expect(Buffer.compare(answer, bytes)).toBe(0);
    }
  });

  test('bytes that a handler keeps stay as they are', async () => {
    const kept: Uint8Array[] = [];
    const { api } = await served(setUp, {
      keep: (body: Uint8Array) => {
        kept.push(body);
      },
    });
    await Promise.all(Array.from({ length: 200 }, (_, i) => api.keep(new Uint8Array(100).fill(i))));
    expect(kept.every((bytes, i) => bytes.every((byte) => byte === i))).toBe(true);
  });

  test('many calls at once are answered each with its own answer, in whatever order', async () => {
    const { api } = await served(setUp, {
      square: async (n: number) => {
        for (let i = 0; i < n % 4; i++) await new Promise((resolve) => setImmediate(resolve));
        return n * n;
      },
    });
    const numbers = Array.from({ length: 2000 }, (_, i) => i);
    expect(await Promise.all(numbers.map((n) => api.square(n)))).toEqual(numbers.map((n) => n * n));
  });

  test('a slow call does not hold up others', async () => {
    const gate = new Gate();
    const { api } = await served(setUp, { wait: () => gate.opened, now: () => 'now' });
    const slow = api.wait();
    expect(await api.now()).toBe('now');
    gate.open();
    await slow;
  });

  test('both sides of a connection can call each other', async () => {
    const { client: one, server: other } = await connectPair(setUp);
    const left = {
      who: () => 'left',
      relay: async (n: number): Promise<number> => (await right1.double(n)) + 1,
    };
    const right = { double: (n: number) => n * 2, who: () => 'right' };
    serve(one, left);
    serve(other, right);
    const right1 = client<typeof right>(one);
    const left1 = client<typeof left>(other);
    expect(await Promise.all([right1.who(), left1.who(), left1.relay(20)])).toEqual(['right', 'left', 41]);
  });

  test('a listener serves all who connect', async () => {
    const listener = await listenForTest(setUp);
    const service = { one: () => 1 };
    const server = serve(listener, service);
    const transport = transportForTest(setUp);
    const connections = await Promise.all([1, 2, 3].map(() => transport.connect(listener.url)));
    expect(
      await Promise.all(connections.map((connection) => client<typeof service>(connection).one())),
    ).toEqual([1, 1, 1]);
    expect(server.stats()).toMatchObject({ connections: 3, handled: 3 });
    await server.close();
    expect(connections.map((connection) => rpcStats(connection).pendingCalls)).toEqual([0, 0, 0]);
  });

  test('a method that is not there, and a peer that serves nothing', async () => {
    const { api, server } = await served(setUp, { one: () => 1 });
    await api.one();
    const wide = api as unknown as Record<string, () => Promise<unknown>>;
    for (const name of ['two', 'hasOwnProperty', '__proto__', 'constructor']) {
      expect((await verbmqErrorOf(wide[name]?.() as Promise<unknown>)).code).toBe(
        'ERR_VERBMQ_RPC_UNKNOWN_METHOD',
      );
    }
    expect(server.stats().refused).toBe(4);

    const { client: near, server: far } = await connectPair(setUp);
    client(far);
    const error = await verbmqErrorOf(client<{ any(): number }>(near).any());
    expect(error).toMatchObject({ code: 'ERR_VERBMQ_RPC_UNKNOWN_METHOD', outcome: undefined });
  });

  test('this is the service, for handlers that use it', async () => {
    const service = {
      factor: () => 3,
      times(this: { factor(): number }, n: number) {
        return n * this.factor();
      },
    };
    const { api } = await served(setUp, service);
    expect(await api.times(2)).toBe(6);
  });

  test('a call that is made while another is being encoded does not disturb it', async () => {
    const { api } = await served(setUp, { echo: (body: unknown) => body });
    let inner: Promise<unknown> | undefined;
    class Value {
      toJSON(): string {
        inner = api.echo('inner');
        return 'within';
      }
    }
    expect(await api.echo({ before: 1, value: new Value(), after: 2 })).toEqual({
      before: 1,
      value: 'within',
      after: 2,
    });
    expect(await inner).toBe('inner');
  });

  test('what is sent while a body is being encoded does not disturb it', async () => {
    let cancelled = 0;
    const { api } = await served(setUp, {
      echo: (body: unknown) => body,
      wait: (_: undefined, { signal }: CallContext) =>
        new Promise<void>((resolve) => {
          signal.onabort = () => {
            cancelled++;
            resolve();
          };
        }),
    });
    const controllers = [new AbortController(), new AbortController()] as const;
    const waiting = controllers.map(({ signal }) => errorOf(api.wait(undefined, { signal })));
    class Value {
      readonly #controller: AbortController;
      constructor(controller: AbortController) {
        this.#controller = controller;
      }
      toJSON(): string {
        this.#controller.abort(); // sends a cancellation on the same connection
        return 'within';
      }
    }
    // One that leaves, and one that does not because it cannot be encoded.
    expect(await api.echo({ before: 1, value: new Value(controllers[0]) })).toEqual({
      before: 1,
      value: 'within',
    });
    const error = await errorOf(api.echo({ value: new Value(controllers[1]), after: Symbol('none') }));
    expect(error).toMatchObject({ code: 'ERR_VERBMQ_ENCODE' });
    for (const call of waiting) expect(await call).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED' });
    expect(await api.echo({ last: true })).toEqual({ last: true });
    expect(cancelled).toBe(2);
  });

  test('what is wrong with a service or its options is said at once', async () => {
    const { server: far } = await connectPair(setUp);
    expect(() => serve(far, { a: 1 as never })).toThrow(TypeError);
    expect(() => serve(far, { '': () => 1 })).toThrow(TypeError);
    expect(() => serve(far, {}, { maxConcurrentCalls: 0 })).toThrow(RangeError);
    class Methods {
      place(): void {}
    }
    expect(() => serve(far, new Methods() as never)).toThrow(/from a class/);
    expect(() => serve(far, {}, { streamWindowBytes: 1 })).toThrow(RangeError);
    expect(() => client(far, { maxPendingCalls: 0 })).toThrow(RangeError);
    expect(() => client(far, { timeoutMs: -1 })).toThrow(RangeError);
    serve(far, {});
    expect(() => serve(far, {})).toThrow(/served already/);
  });

  test('a client is not taken for a promise', async () => {
    const { api } = await served(setUp, { one: () => 1 });
    expect(await (await api).one()).toBe(1);
  });
}
