import type { ServerInterceptor } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { turns } from '../../support/expectations.js';
import type { SetUp } from '../../support/set-up.js';
import { collect, Gate, served, until } from '../support.js';

/** More than a stream may send before it is granted anything: it comes to its end only if no grant was lost. */
const COUNT = 300;

async function* rows(count = COUNT): AsyncGenerator<Uint8Array> {
  for (let i = 0; i < count; i++) yield new Uint8Array(1000);
}

async function lengthOf(source: AsyncIterable<Uint8Array>): Promise<number> {
  return (await collect(source)).length;
}

/** What a stream may send is granted when the call arrives, and its source may come much later. */
export function lateStreams(setUp: SetUp): void {
  test('a handler that answers with its stream later', async () => {
    const gate = new Gate();
    const { api, near } = await served(setUp, {
      late: async () => {
        await gate.opened;
        return rows();
      },
      now: () => 1,
    });
    const answers = collect(api.late.stream());
    await api.now(); // by then everything that was granted at first has arrived
    await turns();
    gate.open();
    expect((await answers).length).toBe(COUNT);
    expect(near.state).toBe('open');
  });

  test('an interceptor that takes its time', async () => {
    const slow: ServerInterceptor = async (_, body, next) => {
      await turns();
      return next(body);
    };
    const { api } = await served(
      setUp,
      { rows: (count: number) => rows(count) },
      { serve: { interceptors: [slow] } },
    );
    expect((await collect(api.rows.stream(COUNT))).length).toBe(COUNT);
  });

  test('a request that is large, so that its handler runs long after the call has arrived', async () => {
    const { api } = await served(setUp, { rows: (body: Uint8Array) => rows(body.byteLength / 1000) });
    expect((await collect(api.rows.stream(new Uint8Array(COUNT * 1000)))).length).toBe(COUNT);
  });

  test('a stream to a handler that reads it late, behind an interceptor that does too', async () => {
    const slow: ServerInterceptor = async (_, body, next) => {
      await turns();
      return next(body);
    };
    const { api } = await served(
      setUp,
      {
        count: async (source: AsyncIterable<Uint8Array>) => {
          await turns();
          return lengthOf(source);
        },
      },
      { serve: { interceptors: [slow] } },
    );
    expect(await api.count(rows())).toBe(COUNT);
  });

  test('streams in both directions, of which the one back begins when the other one is over', async () => {
    const { api } = await served(setUp, {
      echo: async (source: AsyncIterable<Uint8Array>) => {
        const all = await collect(source);
        return rows(all.length);
      },
    });
    expect(await lengthOf(api.echo.stream(rows()))).toBe(COUNT);
  });

  test('what is granted to a call that is over, or that gives no stream, is nobody’s business', async () => {
    const gate = new Gate();
    let left = 0;
    const { api, near } = await served(setUp, {
      late: async () => {
        await gate.opened;
        return {
          [Symbol.asyncIterator]: () => ({
            next: async () => ({ done: true as const, value: undefined }),
            return: async () => {
              left++;
              return { done: true as const, value: undefined };
            },
          }),
        };
      },
      now: () => 1,
    });
    const stream = api.late.stream();
    await api.now();
    await stream.return();
    await api.now(); // the cancellation has arrived
    gate.open();
    await until(() => left === 1); // the source that came too late was let go
    expect(near.state).toBe('open');
  });
}
