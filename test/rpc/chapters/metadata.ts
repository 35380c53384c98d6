import type { CallContext, Metadata } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import type { SetUp } from '../../support/set-up.js';
import { collect, errorOf, from, served } from '../support.js';

export function metadata(setUp: SetUp): void {
  test('travels to the handler, and back with the answer, the error and the end of a stream', async () => {
    const { api } = await served(setUp, {
      answer: (_: undefined, call: CallContext) => {
        call.answerMetadata = { served: 'yes', ...call.metadata };
        return 1;
      },
      fail: async (_: undefined, call: CallContext) => {
        call.answerMetadata = { failed: 'yes' };
        throw new Error('failed');
      },
      async *many(_: undefined, call: CallContext) {
        yield { ...call.metadata };
        call.answerMetadata = { ended: 'yes' };
      },
      all: async (source: AsyncIterable<number>, call: CallContext) => [
        await collect(source),
        { ...call.metadata },
      ],
    });
    const seen: Metadata[] = [];
    const options = {
      metadata: { traceparent: '00-abc', 'x-üñí': 'ü', '': '' },
      onMetadata: (m: Metadata) => seen.push({ ...m }),
    };
    expect(await api.answer(undefined, options)).toBe(1);
    await errorOf(api.fail(undefined, options));
    expect(await collect(api.many.stream(undefined, options))).toEqual([options.metadata]);
    expect(await api.all(from([1]), options)).toEqual([[1], options.metadata]);
    expect(seen).toEqual([{ served: 'yes', ...options.metadata }, { failed: 'yes' }, { ended: 'yes' }]);
  });

  test('none is an empty object, and __proto__ is a name like any other', async () => {
    const { api } = await served(setUp, {
      names: (_: undefined, call: CallContext) => Object.keys(call.metadata),
      inherited: (_: undefined, call: CallContext) => String((call.metadata as { a?: string }).a),
    });
    expect(await api.names()).toEqual([]);
    const hostile = JSON.parse('{"__proto__":"x"}') as Metadata;
    expect(await api.names(undefined, { metadata: hostile })).toEqual(['__proto__']);
    expect(await api.inherited(undefined, { metadata: hostile })).toBe('undefined');
  });

  test('of the wrong kind or too large is the mistake of the caller', async () => {
    const { api } = await served(setUp, { one: () => 1 });
    expect(await errorOf(api.one(undefined, { metadata: { a: 1 as never } }))).toBeInstanceOf(TypeError);
    const large = { a: 'x'.repeat(5000), b: 'x'.repeat(5000) };
    expect(await errorOf(api.one(undefined, { metadata: large }))).toBeInstanceOf(RangeError);
    expect(await api.one()).toBe(1);
  });

  test('that a handler sets wrongly fails its call alone', async () => {
    const { api } = await served(setUp, {
      bad: (_: undefined, call: CallContext) => {
        call.answerMetadata = { a: 1 as never };
        return 1;
      },
      badError: (_: undefined, call: CallContext) => {
        call.answerMetadata = { a: 1 as never };
        throw new Error('the real error');
      },
      one: () => 1,
    });
    expect((await errorOf(api.bad())).message).toMatch(/must be a string/);
    expect((await errorOf(api.badError())).message).toBe('the real error');
    expect(await api.one()).toBe(1);
  });
}
