import type { ClientInterceptor, ServerInterceptor } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import type { SetUp } from '../../support/set-up.js';
import { collect, errorOf, served } from '../support.js';

export function interceptors(setUp: SetUp): void {
  test('stand around calls and handlers, the first outermost, and may change what passes', async () => {
    const order: string[] = [];
    const near =
      (name: string): ClientInterceptor =>
      (request, next) => {
        order.push(`${name} ${request.kind} ${request.method}`);
        return next({ ...request, body: `${request.body}${name}`, options: { metadata: { from: name } } });
      };
    const far =
      (name: string): ServerInterceptor =>
      async (context, body, next) => {
        order.push(`${name} ${context.method} ${context.metadata.from}`);
        return `${await next(`${body}${name}`)}!`;
      };
    const { api } = await served(
      setUp,
      { echo: (body: string) => body },
      { client: { interceptors: [near('1'), near('2')] }, serve: { interceptors: [far('3'), far('4')] } },
    );
    expect(await api.echo('0')).toBe('01234!!');
    expect(order).toEqual(['1 unary echo', '2 unary echo', '3 echo 2', '4 echo 2']);
  });

  test('may refuse, answer in the place of the handler, and try again', async () => {
    let calls = 0;
    const refuse: ServerInterceptor = (context, body, next) => {
      if (context.metadata.token !== 'right')
        throw Object.assign(new Error('who are you?'), { code: 'DENIED' });
      return next(body);
    };
    const twice: ClientInterceptor = async (request, next) => {
      try {
        return await (next(request) as Promise<unknown>);
      } catch {
        return await (next(request) as Promise<unknown>);
      }
    };
    const service = {
      flaky: () => {
        if (++calls === 1) throw new Error('not yet');
        return calls;
      },
    };
    const { api } = await served(setUp, service, {
      client: { interceptors: [twice] },
      serve: { interceptors: [refuse] },
    });
    expect(await errorOf(api.flaky())).toMatchObject({ code: 'DENIED' });
    expect(calls).toBe(0);
    expect(await api.flaky(undefined, { metadata: { token: 'right' } })).toBe(2);
  });

  test('see streams', async () => {
    const double: ServerInterceptor = (context, body, next) => {
      const answer = next(body) as AsyncIterable<number>;
      return (async function* () {
        for await (const n of answer) yield n * 2;
        context.answerMetadata = { count: 'done' };
      })();
    };
    const seen: string[] = [];
    const { api } = await served(
      setUp,
      {
        async *count(to: number) {
          for (let i = 0; i < to; i++) yield i;
        },
      },
      {
        serve: { interceptors: [double] },
        client: {
          interceptors: [
            (request, next) => {
              seen.push(request.kind);
              return next(request);
            },
          ],
        },
      },
    );
    expect(await collect(api.count.stream(3))).toEqual([0, 2, 4]);
    expect(seen).toEqual(['stream']);
  });
}
