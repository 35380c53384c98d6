import type { Codec } from '@verbmq/core/codec';
import { type CallContext, client, serve } from '@verbmq/core/rpc';
import pino from 'pino';
import { expect, test } from 'vitest';
import { connectPair } from '../../support/pair.js';
import type { SetUp } from '../../support/set-up.js';
import { errorOf, fired, served } from '../support.js';

/** A codec that knows nothing of rooms to write in, nor of headers before what it encodes but that it has to leave them room. */
const json: Codec = {
  name: 'json',
  encode(value, reserve) {
    const text = Buffer.from(JSON.stringify(value));
    const bytes = new Uint8Array(reserve + text.length);
    bytes.set(text, reserve);
    return bytes;
  },
  decode: (bytes, start, end) => JSON.parse(Buffer.from(bytes.subarray(start, end)).toString()),
};

/** What users of Node.js expect of whatever they build on. */
export function habits(setUp: SetUp): void {
  test('a codec of another kind', async () => {
    const options = { codec: json };
    const { api } = await served(
      setUp,
      {
        echo: (body: unknown) => body,
        async *count(to: number) {
          for (let n = 1; n <= to; n++) yield { n };
        },
      },
      { client: options, serve: options },
    );
    for (const value of [null, 'ü', [1, { two: 2 }], 'x'.repeat(300_000)]) {
      expect(await api.echo(value)).toEqual(value);
    }
    expect(await api.echo(Uint8Array.of(1, 2))).toEqual(Uint8Array.of(1, 2));
    const items = [];
    for await (const item of api.count.stream(3)) items.push(item);
    expect(items).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
  });

  test('disposing of a stream ends its call, disposing of a server ends what it serves', async () => {
    const { client: near, server: far } = await connectPair(setUp);
    let ended: Promise<void> | undefined;
    const service = {
      async *endless(_: undefined, { signal }: CallContext) {
        ended = fired(signal);
        for (let n = 0; ; n++) yield n;
      },
    };
    {
      await using server = serve(far, service);
      {
        await using stream = client<typeof service>(near).endless.stream();
        expect(await stream.next()).toEqual({ done: false, value: 0 });
      }
      await ended;
      expect(server.stats().connections).toBe(1);
    }
    expect(await near.closed).toMatchObject({ graceful: true });
    expect(far.state).toBe('closed');
  });

  test('a pino logger is told of handlers that fail, as its child', async () => {
    const lines: Record<string, unknown>[] = [];
    const logger = pino({ level: 'warn' }, { write: (line) => lines.push(JSON.parse(line)) });
    const { api } = await served(
      setUp,
      {
        fail: () => {
          throw new Error('out of tea');
        },
      },
      { serve: { logger } },
    );
    expect((await errorOf(api.fail())).message).toBe('out of tea');
    expect(lines).toEqual([
      expect.objectContaining({
        part: 'rpc',
        method: 'fail',
        msg: 'a handler failed',
        err: expect.objectContaining({ message: 'out of tea' }),
      }),
    ]);
  });
}
