// Codecs are called in the middle of everything. What they do to the connection, its calls and its server meanwhile concerns those alone.
import { type CallContext, client, rpcStats, serve } from '@verbmq/core/rpc';
import { expect, test } from 'vitest';
import { turns } from '../../support/expectations.js';
import { json } from '../../support/json-codec.js';
import { type Marked, MeddlingCodec } from '../../support/meddling-codec.js';
import type { SetUp } from '../../support/set-up.js';
import {
  collect,
  errorOf,
  fired,
  from,
  Gate,
  type Served,
  served,
  until,
  verbmqErrorOf,
} from '../support.js';

const text = 'ü'.repeat(300);
const encoded: Marked & { text: string } = { meddle: 'encode', text };
const decoded: Marked & { text: string } = { meddle: 'decode', text };

const service = {
  echo: (body: unknown) => body,
  plain: () => 'plain',
  async slow() {
    await new Promise((resolve) => setImmediate(resolve));
    return 'slow';
  },
  encoded: () => encoded,
  decoded: () => decoded,
  hang: async (_: unknown, { signal }: CallContext) => fired(signal),
  async *items(body: unknown) {
    yield 1;
    yield body ?? encoded;
    yield 3;
  },
  collect: (source: AsyncIterable<unknown>) => collect(source),
  fail: () => {
    throw Object.assign(new Error('failed'), { details: encoded });
  },
};

interface Meddled extends Served<typeof service> {
  readonly nearCodec: MeddlingCodec;
  readonly farCodec: MeddlingCodec;
}

async function meddled(setUp: SetUp): Promise<Meddled> {
  const nearCodec = new MeddlingCodec();
  const farCodec = new MeddlingCodec();
  const parts = await served(setUp, service, { client: { codec: nearCodec }, serve: { codec: farCodec } });
  return { ...parts, nearCodec, farCodec };
}

/** Where a codec is called, and what is called there. */
const places: [where: string, side: 'nearCodec' | 'farCodec', call: (of: Meddled) => Promise<unknown>][] = [
  ['encodes a request', 'nearCodec', ({ api }) => api.echo(encoded)],
  ['decodes a request', 'farCodec', ({ api }) => api.echo(decoded)],
  ['encodes an answer', 'farCodec', ({ api }) => api.encoded()],
  ['decodes an answer', 'nearCodec', ({ api }) => api.decoded()],
  ['encodes an item for a handler', 'nearCodec', ({ api }) => api.collect(from([1, encoded, 3]))],
  ['decodes an item for a handler', 'farCodec', ({ api }) => api.collect(from([1, decoded, 3]))],
  ['encodes an item for a caller', 'farCodec', ({ api }) => collect(api.items.stream())],
  ['decodes an item for a caller', 'nearCodec', ({ api }) => collect(api.items.stream(decoded))],
  ['encodes the details of an error', 'farCodec', async ({ api }) => (await errorOf(api.fail())).details],
];
const expected = (where: string): unknown => {
  const value = where.startsWith('decodes') ? decoded : encoded;
  return where.includes('item') ? [1, value, 3] : value;
};

const ENDED = /^ERR_VERBMQ_(CLOSED|ABORTED|PEER_ABORTED|CONNECTION_LOST|CANCELLED|OVERLOADED)$/;

export function meddlingCodecs(setUp: SetUp): void {
  test.each(places)('one that calls, in both directions, while it %s', async (where, side, call) => {
    const all = await meddled(setUp);
    // The caller serves as well, and the server calls.
    serve(all.near, service, { codec: all.nearCodec });
    const back = client<typeof service>(all.far, { codec: all.farCodec });
    const inner: Promise<unknown>[] = [];
    all[side].meddle = () => {
      for (const api of [all.api, back]) {
        const long = api.echo(new Uint8Array(100_000)).then((body) => (body as Uint8Array).length);
        inner.push(api.echo({ text }), api.slow(), collect(api.items.stream({ one: 2 })), long);
      }
    };
    for (let round = 0; round < 20; round++) {
      const calls = [all.api.echo(round), call(all), all.api.echo([round])];
      expect(await Promise.all(calls)).toEqual([round, expected(where), [round]]);
    }
    const answers = [{ text }, 'slow', [1, { one: 2 }, 3], 100_000];
    expect(inner.length).toBeGreaterThanOrEqual(20 * 8);
    expect(await Promise.all(inner)).toEqual(Array.from({ length: inner.length / 4 }, () => answers).flat());
    expect(rpcStats(all.near).pendingCalls + rpcStats(all.far).pendingCalls).toBe(0);
  });

  const ends: [how: string, isGraceful: boolean, end: (of: Meddled) => void][] = [
    ['closes the connection', true, ({ near }) => void near.close()],
    ['closes it on the other side', true, ({ far }) => void far.close()],
    ['closes the server', true, ({ server }) => void server.close(1)],
    ['aborts the connection', false, ({ near }) => near.abort('meddling')],
    ['aborts it on the other side', false, ({ far }) => far.abort('meddling')],
  ];
  test.each(ends)('one that %s, wherever it is called', async (_, isGraceful, end) => {
    for (const [where, side, call] of places) {
      const all = await meddled(setUp);
      const hanging = verbmqErrorOf(all.api.hang());
      await until(() => all.server.stats().running === 1);
      let times = 0;
      all[side].meddle = () => {
        if (times++ === 0) end(all);
      };
      // It may be done by then, or fail.
      const outcome = await call(all).catch(({ code }) => {
        expect(code, where).toMatch(ENDED);
      });
      expect([expected(where), undefined], where).toContainEqual(outcome);
      expect(times, where).toBeGreaterThan(0);
      for (const connection of [all.near, all.far])
        expect((await connection.closed).graceful, where).toBe(isGraceful);
      expect((await hanging).code, where).toMatch(ENDED);
      await until(() => all.server.stats().running === 0);
      expect(rpcStats(all.near).pendingCalls, where).toBe(0);
      expect((await verbmqErrorOf(all.api.plain())).code, where).toBe('ERR_VERBMQ_CLOSED');
    }
  });

  test('one that closes the server while it decodes a request: that is answered first', async () => {
    const codec = new MeddlingCodec();
    const gate = new Gate();
    const handler = async (_: unknown): Promise<string> => {
      await gate.opened;
      return 'answered';
    };
    const { api, server, near } = await served(
      setUp,
      { handler },
      { client: { codec: json }, serve: { codec } },
    );
    let closed: Promise<void> | undefined;
    codec.meddle = () => {
      closed = server.close();
    };
    const answer = api.handler(decoded);
    await until(() => closed !== undefined);
    await turns();
    gate.open();
    expect(await answer).toBe('answered');
    await closed;
    expect((await near.closed).graceful).toBe(true);
  });

  test('one that cancels the call of the large item that it encodes: no more of that leaves', async () => {
    const { api, near, nearCodec } = await meddled(setUp);
    const controller = new AbortController();
    nearCodec.meddle = () => controller.abort('meddling');
    const large = { ...encoded, text: 'x'.repeat(8_000_000) };
    const error = await verbmqErrorOf(api.collect(from([large]), { signal: controller.signal }));
    expect(error.code).toBe('ERR_VERBMQ_CANCELLED');
    for (let n = 0; n < 30; n++) expect(await api.echo(n)).toBe(n);
    expect(near.stats().bytesSent).toBeLessThan(1_000_000);
  });
}
