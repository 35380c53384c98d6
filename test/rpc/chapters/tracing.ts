import { AsyncLocalStorage } from 'node:async_hooks';
import { type RpcTrace, rpcChannels } from '@verbmq/core/rpc';
import { expect, onTestFinished, test } from 'vitest';
import type { SetUp } from '../../support/set-up.js';
import { collect, errorOf, served, until } from '../support.js';

type Side = keyof typeof rpcChannels;

/** Writes down what both channels tell, until the test is over. */
function record(): string[] {
  const events: string[] = [];
  for (const side of ['client', 'server'] as const) {
    const write = (event: string) => (message: unknown) => {
      const { method, kind } = message as RpcTrace;
      events.push(`${side} ${event} ${kind} ${method}`);
    };
    const handlers = {
      start: write('start'),
      end: write('end'),
      asyncStart: () => {},
      asyncEnd: write('asyncEnd'),
      error: write('error'),
    };
    subscribe(side, handlers);
  }
  return events;
}

function subscribe(side: Side, handlers: Parameters<(typeof rpcChannels)[Side]['subscribe']>[0]): void {
  rpcChannels[side].subscribe(handlers);
  onTestFinished(() => {
    rpcChannels[side].unsubscribe(handlers);
  });
}

export function tracing(setUp: SetUp): void {
  test('tells of calls and streams from their start to their end, on both sides', async () => {
    const { api } = await served(setUp, {
      one: () => 1,
      fail: async () => {
        throw new Error('failed');
      },
      async *many() {
        yield 1;
      },
    });
    const events = record();
    await api.one();
    await errorOf(api.fail());
    await collect(api.many.stream());
    const ofOne = (method: string): string[] =>
      events
        .filter((event) => event.endsWith(` ${method}`))
        .map((event) => event.replace(` ${method}`, ''))
        .sort();
    await until(() => ofOne('many').length === 6);
    expect(ofOne('one')).toEqual(
      [
        'client start unary',
        'client end unary',
        'client asyncEnd unary',
        'server start unary',
        'server end unary',
        'server asyncEnd unary',
      ].sort(),
    );
    expect(ofOne('fail').filter((event) => event.includes('error'))).toEqual([
      'client error unary',
      'server error unary',
    ]);
    expect(ofOne('many').filter((event) => event.includes('asyncEnd'))).toEqual([
      'client asyncEnd stream',
      'server asyncEnd stream',
    ]);
  });

  test('carries a context from caller to handler', async () => {
    const storage = new AsyncLocalStorage<string>();
    const { api } = await served(setUp, {
      where: async () => {
        await new Promise((resolve) => setImmediate(resolve));
        return storage.getStore();
      },
    });
    subscribe('client', {
      start: (message) => {
        (message as RpcTrace).metadata.traceparent = `of ${storage.getStore()}`;
      },
      end() {},
      asyncStart() {},
      asyncEnd() {},
      error() {},
    });
    rpcChannels.server.start.bindStore(storage, (message) => message.metadata.traceparent);
    onTestFinished(() => {
      rpcChannels.server.start.unbindStore(storage);
    });
    expect(await storage.run('the caller', () => api.where())).toBe('of the caller');
  });
}
