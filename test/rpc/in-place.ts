// Where the bytes of small calls lie over RDMA: in registered memory, from the moment they are encoded until they are decoded.
import { MsgpackCodec } from '@verbmq/core/codec';
import { isReused } from '@verbmq/core/transport-kit';
import { expect, test } from 'vitest';
import type { SetUp } from '../support/set-up.js';
import { served } from './support.js';

/** Notes whether what it writes to and reads from is the transport's memory. */
class WatchingCodec extends MsgpackCodec {
  written = 0;
  copied = 0;
  readonly readFrom = new Set<boolean>();
  /** All that bodies were read from which were all of it. */
  readonly views = new Set<Uint8Array>();

  override encode(value: unknown, reserve: number): Uint8Array {
    this.copied++;
    return super.encode(value, reserve);
  }

  override encodeInto(value: unknown, target: Buffer, offset: number): number {
    expect(isReused(target)).toBe(true);
    const end = super.encodeInto(value, target, offset);
    if (end > 0) this.written++;
    return end;
  }

  override decode(bytes: Uint8Array, start: number, end: number): unknown {
    this.readFrom.add(isReused(bytes));
    if (start === 0 && end === bytes.length) this.views.add(bytes);
    return super.decode(bytes, start, end);
  }
}

const echo = (body: unknown): unknown => body;

export function inPlace(setUp: SetUp): void {
  test('small bodies are encoded once, into registered memory, and read from registered memory', async () => {
    const codec = new WatchingCodec();
    const { api } = await served(setUp, { echo }, { client: { codec }, serve: { codec } });
    for (let i = 0; i < 200; i++) {
      const order = { id: i, item: 'tea', tags: ['hot', 'ü'.repeat(i)] };
      expect(await api.echo(order)).toEqual(order);
    }
    expect(codec.written).toBe(400);
    expect(codec.copied).toBe(0);
    expect([...codec.readFrom]).toEqual([true]);
  });

  test('short bodies of one length are read from one view for each slot', async () => {
    const codec = new WatchingCodec();
    const { api } = await served(setUp, { echo }, { client: { codec }, serve: { codec } });
    for (let i = 1000; i < 2000; i++) expect(await api.echo(`tea ${i}`)).toBe(`tea ${i}`);
    // Numbers of calls take one byte, then two; the peer's slots are those of either side.
    expect(codec.views.size).toBeGreaterThan(0);
    expect(codec.views.size).toBeLessThan(1000);
  });

  test('what does not fit goes another way, and small bodies after it as before', async () => {
    const codec = new WatchingCodec();
    const { api } = await served(setUp, { echo }, { client: { codec }, serve: { codec } });
    const long = { text: 'x'.repeat(20_000) };
    for (const value of ['first', long, 'second', 'third', long, long, 'fourth']) {
      expect(await api.echo(value)).toEqual(value);
    }
    expect(codec.copied).toBeGreaterThan(0);
    const { copied } = codec;
    expect(await api.echo('last')).toBe('last');
    expect(codec.copied).toBe(copied);
  });

  test.each([Number.NaN, 1, 2 ** 30])(
    'a codec that says a body ends at %s has not written it',
    async (end) => {
      let asked = 0;
      class Lying extends MsgpackCodec {
        override encodeInto(): number {
          asked++;
          return end;
        }
      }
      const { api } = await served(
        setUp,
        { echo },
        { serve: { codec: new Lying() }, client: { codec: new Lying() } },
      );
      expect(await api.echo({ a: [1] })).toEqual({ a: [1] });
      expect(asked).toBeGreaterThan(0);
    },
  );

  test('bodies longer than a message may be go in pieces, though they would fit', async () => {
    const { api, near, far } = await served(setUp, { echo }, { pair: { both: { maxMessageBytes: 1024 } } });
    const value = { numbers: Array.from({ length: 500 }, (_, i) => i * 1000) };
    for (const body of [value, new Uint8Array(2000)]) {
      const before = [near.stats().messagesSent, far.stats().messagesSent] as const;
      expect(await api.echo(body)).toEqual(body);
      expect(near.stats().messagesSent - before[0]).toBeGreaterThan(2);
      expect(far.stats().messagesSent - before[1]).toBeGreaterThan(2);
    }
  });

  test('answers for which there is no room wait, each in its order', async () => {
    const codec = new WatchingCodec();
    const { api } = await served(setUp, { echo }, { client: { codec }, serve: { codec } });
    // More than there are slots, in one turn.
    const answers = await Promise.all(Array.from({ length: 2000 }, (_, i) => api.echo({ i })));
    expect(answers).toEqual(Array.from({ length: 2000 }, (_, i) => ({ i })));
    expect(codec.written).toBeGreaterThan(0);
  });
}
