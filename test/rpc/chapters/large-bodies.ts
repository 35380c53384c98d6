import { MsgpackCodec } from '@verbmq/core/codec';
import { rpcStats } from '@verbmq/core/rpc';
import { expect, test, vi } from 'vitest';
import { expectBytes, pattern } from '../../support/messages.js';
import { inGuest, type SetUp } from '../../support/set-up.js';
import { collect, from, served, until, verbmqErrorOf } from '../support.js';

const KIB = 1024;
const MIB = 1024 * KIB;

/** A body that takes its time. */
const LARGE = inGuest ? 3 * MIB : 24 * MIB;
/** More than a transport takes of what nobody reads. */
const UNREAD = 48 * MIB;

export function largeBodies(setUp: SetUp): void {
  test('bodies around the length of a frame, and far beyond it', async () => {
    const { api } = await served(setUp, { echo: (body: unknown) => body });
    for (const length of [
      3900,
      4096,
      64 * KIB - 60,
      64 * KIB - 6,
      64 * KIB - 5,
      64 * KIB - 4,
      64 * KIB,
      inGuest ? MIB : 3 * MIB,
    ]) {
      const bytes = pattern(length, length);
      expectBytes((await api.echo(bytes)) as Uint8Array, bytes);
      const { inner } = (await api.echo({ inner: bytes })) as { inner: Uint8Array };
      expectBytes(inner, bytes);
    }
  });

  test('bytes meet no codec, and leave from where they lie', async () => {
    let encoded = 0;
    class CountingCodec extends MsgpackCodec {
      override encode(value: unknown, reserve: number): Uint8Array {
        encoded++;
        return super.encode(value, reserve);
      }
      override encodeInto(value: unknown, target: Buffer, offset: number): number {
        encoded++;
        return super.encodeInto(value, target, offset);
      }
      override decode(bytes: Uint8Array, start: number, end: number): unknown {
        encoded++;
        return super.decode(bytes, start, end);
      }
    }
    const codec = new CountingCodec();
    const { api, near, far } = await served(
      setUp,
      {
        echo: (body: Uint8Array) => body,
        async *items() {
          yield pattern(500);
        },
      },
      { client: { codec }, serve: { codec } },
    );
    const sent = vi.spyOn(near, 'trySendBehind');
    for (const length of [1, 100, 10_000, 200_000]) {
      const body = pattern(length, length);
      sent.mockClear();
      expectBytes(await api.echo(body), body);
      // The connection gets the very body, where it puts head and body together itself.
      if (length + 10 <= near.maxPartsBytes)
        expect(sent.mock.calls.map((args) => args[2])).toEqual([expect.toSatisfy((data) => data === body)]);
    }
    for await (const item of api.items.stream()) expectBytes(item, pattern(500));
    expect(encoded).toBe(0);

    // What changes before it has left arrives changed: it was nowhere else.
    far.pause();
    const { messagesSent } = near.stats();
    const body = new Uint8Array(LARGE);
    const answer = api.echo(body);
    await until(() => near.stats().messagesSent > messagesSent + 2);
    body.fill(7, LARGE - MIB);
    far.resume();
    const echoed = await answer;
    expect([echoed[0], echoed[LARGE - MIB], echoed[LARGE - 1]]).toEqual([0, 7, 7]);
    expect(encoded).toBe(0);
  });

  test('several large bodies at once, in both directions', async () => {
    const { api } = await served(setUp, {
      echo: async (body: Uint8Array) => {
        await new Promise((resolve) => setImmediate(resolve));
        return body;
      },
    });
    const bodies = Array.from({ length: inGuest ? 3 : 8 }, (_, i) => pattern(700 * KIB + i, i));
    const answers = await Promise.all(bodies.map((body) => api.echo(body)));
    for (const [i, body] of bodies.entries()) expectBytes(answers[i] as Uint8Array, body);
  });

  test('small calls overtake a large one', async () => {
    const { api } = await served(setUp, {
      length: (body: Uint8Array) => body.byteLength,
      small: () => 'small',
    });
    await api.small();
    const order: string[] = [];
    const large = api.length(new Uint8Array(LARGE)).then((length) => {
      order.push('large');
      return length;
    });
    // They are behind the first pieces of the large one, and ahead of all others, however fast those are.
    await Promise.all([1, 2, 3].map(async () => order.push(await api.small())));
    expect(await large).toBe(LARGE);
    expect(order).toEqual(['small', 'small', 'small', 'large']);
  });

  test('small answers overtake a large one', async () => {
    const { api } = await served(setUp, { large: () => new Uint8Array(LARGE), small: () => 'small' });
    await api.small();
    const order: string[] = [];
    const large = api.large().then(({ byteLength }) => {
      order.push('large');
      return byteLength;
    });
    await Promise.all([1, 2, 3].map(async () => order.push(await api.small())));
    expect(await large).toBe(LARGE);
    expect(order).toEqual(['small', 'small', 'small', 'large']);
  });

  test('large items of streams stay in order among small ones', async () => {
    const items = [1, 200 * KIB, 2, 70 * KIB, 300 * KIB, 3, 4].map((length) => pattern(length, length));
    const { api } = await served(setUp, {
      both: async function* (source: AsyncIterable<Uint8Array>) {
        for await (const item of source) yield item;
      },
    });
    const answers = await collect(api.both.stream(from(items)));
    expect(answers.length).toBe(items.length);
    for (const [i, item] of items.entries()) expectBytes(answers[i] as Uint8Array, item);
  });

  test('a body over the limit fails its call alone, at the side that receives it', async () => {
    const { api } = await served(
      setUp,
      { length: (body: Uint8Array) => body.byteLength, make: (length: number) => new Uint8Array(length) },
      { serve: { maxBodyBytes: MIB }, client: { maxBodyBytes: 2 * MIB } },
    );
    expect(await api.length(new Uint8Array(MIB))).toBe(MIB);
    const refused = await verbmqErrorOf(api.length(new Uint8Array(MIB + 1)));
    expect(refused).toMatchObject({ code: 'ERR_VERBMQ_MESSAGE_TOO_LARGE', outcome: undefined });
    expect((await api.make(2 * MIB)).byteLength).toBe(2 * MIB);
    const answer = await verbmqErrorOf(api.make(2 * MIB + 1));
    expect(answer).toMatchObject({ code: 'ERR_VERBMQ_MESSAGE_TOO_LARGE', outcome: 'unknown' });
    expect(await api.length(new Uint8Array(3))).toBe(3);
  });

  test('what is left of a large body does not leave when its call is cancelled', async () => {
    const { api, near } = await served(setUp, { length: (body: Uint8Array) => body.byteLength });
    const controller = new AbortController();
    const call = api.length(new Uint8Array(LARGE), { signal: controller.signal });
    const before = rpcStats(near).backlogBytes;
    expect(before).toBeGreaterThan((LARGE * 2) / 3);
    controller.abort();
    expect((await verbmqErrorOf(call)).code).toBe('ERR_VERBMQ_CANCELLED');
    await until(() => rpcStats(near).backlogBytes === 0);
    expect(near.stats().bytesSent).toBeLessThan(LARGE / 3);
    expect(await api.length(new Uint8Array(3))).toBe(3);
  });

  test('what is left of a large answer does not leave when its call is cancelled', async () => {
    const { api, near, far } = await served(setUp, {
      now: (length: number) => new Uint8Array(length),
      later: async (length: number) => new Uint8Array(length),
    });
    for (const method of [api.now, api.later]) {
      const before = far.stats().bytesSent;
      near.pause();
      const controller = new AbortController();
      const call = method(UNREAD, { signal: controller.signal });
      await until(() => rpcStats(far).backlogBytes > UNREAD / 3);
      controller.abort();
      expect((await verbmqErrorOf(call)).code).toBe('ERR_VERBMQ_CANCELLED');
      await until(() => rpcStats(far).backlogBytes < UNREAD / 3); // it could leave only if it were read
      near.resume();
      expect((await method(3)).byteLength).toBe(3);
      await until(() => rpcStats(far).runningCalls === 0);
      expect(far.stats().bytesSent - before).toBeLessThan(UNREAD);
    }
  });

  test('a large answer that is on its way is given up when its server closes', async () => {
    const { api, near, far, server } = await served(setUp, { large: () => new Uint8Array(UNREAD) });
    near.pause();
    const call = verbmqErrorOf(api.large());
    await until(() => rpcStats(far).backlogBytes > UNREAD / 3);
    const drained = server.drain(1);
    await until(() => rpcStats(far).backlogBytes < UNREAD / 3);
    near.resume();
    expect(await call).toMatchObject({ code: 'ERR_VERBMQ_CANCELLED', outcome: 'unknown' });
    await drained;
  });
}
