import { expect, test } from 'vitest';
import { autoPair } from '../support/auto-pair.js';
import { fill, numbered, numberOf, take } from '../support/messages.js';

test.each(['client', 'server'] as const)(
  'of two windows the smaller one holds in both directions: that of the %s',
  async (side) => {
    const windowBytes = 10_000;
    const { client, server } = await autoPair({ both: { policy: 'tcp' }, [side]: { windowBytes } });
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      const count = await fill(from, (n) => numbered(n, 1000));
      expect(count).toBeGreaterThan(5);
      expect(count * 1000).toBeLessThan(windowBytes + 4080); // with the frame that crosses the limit
      expect((await take(to, count)).map(numberOf)).toEqual(Array.from({ length: count }, (_, n) => n));
    }
    expect([client.state, server.state]).toEqual(['open', 'open']);
  },
);
