import { expect, test } from 'vitest';
import { autoPair, onFast } from '../support/auto-pair.js';
import { expectKept } from '../support/kept-memory.js';
import { expectBytes, numbered, numberOf, pattern, take } from '../support/messages.js';

test.each(['at once', 'later'] as const)(
  'messages that came together, and are handled %s, cannot be taken away from each other',
  async (when) => {
    const { client, server } = await autoPair({ both: { policy: 'tcp' } });
    const count = 20;
    const sent = Array.from({ length: count }, (_, n) => client.send(numbered(n, 50)));
    await Promise.all(sent);
    if (when === 'later') await client.drain();
    const received: Uint8Array[] = [];
    await new Promise<void>((resolve) => {
      server.onMessage(({ data }) => {
        expectKept(data);
        expect(numberOf(data)).toBe(received.push(data) - 1);
        if (received.length === count) resolve();
      });
    });
    const memories = new Set(received.map(({ buffer }) => buffer));
    expect(memories.size).toBeLessThan(count);
  },
);

test.each([100, 20_000, 200_000])(
  'memory of %i bytes that was leased and sent cannot be taken away, and is there when it must be sent again',
  async (bytes) => {
    const { client, server, fast } = await autoPair();
    await onFast(client);
    fast.breakOnce();
    const lease = client.allocate(bytes);
    lease.data.set(pattern(bytes));
    const { data } = lease;
    await client.send(lease);
    expectKept(data);
    await client.send(numbered(7));
    const [first, second] = await take(server, 2);
    expectBytes(first!, pattern(bytes));
    expect(numberOf(second!)).toBe(7);
  },
);
