import { expect, test } from 'vitest';
import { settled } from '../../support/expectations.js';
import { pattern, sameBytes, take } from '../../support/messages.js';
import { connectPair, type Pair } from '../../support/pair.js';
import type { SetUp } from '../../support/set-up.js';

const GREETING_BYTES = 16_384;

/** For layers upon a connection: what a peer may say before they know it. */
export function greeting(setUp: SetUp): void {
  if (setUp.kind === 'auto') {
    test.skip('all of it (skipped: it is such a layer, and greets the connections below by itself)', () => {});
    return;
  }
  const pair = (): Promise<Pair> => connectPair(setUp, { server: { maxGreetingBytes: GREETING_BYTES } });

  test('it may say what is short enough, and is not told of the limit', async () => {
    const { client, server } = await pair();
    await client.send(pattern(GREETING_BYTES));
    expect(sameBytes((await take(server, 1))[0]!, pattern(GREETING_BYTES))).toBe(true);
    expect(client.maxMessageBytes).toBeGreaterThan(GREETING_BYTES);
  });

  test('it is cut off when it says more', async () => {
    const { client, server } = await pair();
    const sent = settled(client.send(pattern(GREETING_BYTES + 1)));
    expect(await server.closed).toMatchObject({ graceful: false, error: { code: 'ERR_VERBMQ_PROTOCOL' } });
    expect(server.stats().messagesReceived).toBe(0);
    expect((await client.closed).graceful).toBe(false);
    await sent;
  });

  test('it may say anything when it was greeted', async () => {
    const { client, server } = await pair();
    server.greeted();
    await client.send(pattern(100_000));
    expect(sameBytes((await take(server, 1))[0]!, pattern(100_000))).toBe(true);
  });
}
