import { expect, test } from 'vitest';
import { autoPair, onFast } from '../support/auto-pair.js';
import { expectBytes, numbered, numberOf, pattern, take } from '../support/messages.js';

test.each([100, 20_000, 200_000])(
  'memory of %i bytes that was leased and sent cannot be taken away, and is there when it must be sent again',
  async (bytes) => {
    const { client, server, fast } = await autoPair();
    await onFast(client);
    fast.breakOnce();
    const lease = client.allocate(bytes);
    lease.data.set(pattern(bytes));
    const { buffer } = lease.data;
    await client.send(lease);
    // This version of Node copies it, later ones refuse.
    expect(['ok', 'DataCloneError']).toContain(outcomeOfTransfer(buffer as ArrayBuffer));
    expect(buffer.byteLength).toBeGreaterThanOrEqual(bytes);
    await client.send(numbered(7));
    const [first, second] = await take(server, 2);
    expectBytes(first!, pattern(bytes));
    expect(numberOf(second!)).toBe(7);
  },
);

function outcomeOfTransfer(buffer: ArrayBuffer): string {
  try {
    structuredClone(buffer, { transfer: [buffer] });
    return 'ok';
  } catch (error) {
    return (error as Error).name;
  }
}
