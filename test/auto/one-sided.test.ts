// One-sided memory is the same upon all transports (test/conformance); this is what auto's own way of carrying operations brings with it.
import { expect, test } from 'vitest';
import { autoPair } from '../support/auto-pair.js';
import { failure, settled } from '../support/expectations.js';
import { expectBytes, pattern } from '../support/messages.js';

test('a write whose memory is transferred before all of it has left fails, and those behind it do not', async () => {
  const { client, server } = await autoPair({ both: { policy: 'tcp' } });
  const owned = await server.expose(3_000_000, { read: true, write: true });
  const remote = client.attach(owned.descriptor);
  const data = pattern(3_000_000);
  const first = settled(remote.write(0, data));
  const second = remote.write(0, pattern(1000, 2));
  structuredClone(data.buffer, { transfer: [data.buffer as ArrayBuffer] });
  expect(await first).toBe(TypeError);
  await second;
  expectBytes(owned.data.slice(0, 1000), pattern(1000, 2));
  expect((await remote.read(0, 3_000_000)).byteLength).toBe(3_000_000);
});

test('a session that ends says of each operation whether it may have changed something', async () => {
  const { client, server, base } = await autoPair({ both: { policy: 'tcp', resumeWindowMs: 50 } });
  const owned = await server.expose(3_000_000, { read: true, write: true, atomic: true });
  const remote = client.attach(owned.descriptor);
  base.cut();
  const read = failure(remote.read(0, 8), 'ERR_VERBMQ_CONNECTION_LOST');
  const adding = failure(remote.fetchAdd(0, 1n), 'ERR_VERBMQ_CONNECTION_LOST');
  const writing = failure(remote.write(0, pattern(3_000_000)), 'ERR_VERBMQ_CONNECTION_LOST');
  const behind = failure(remote.write(0, pattern(8)), 'ERR_VERBMQ_CONNECTION_LOST');
  expect((await client.closed).error?.outcome).toBe('unknown');
  // What only reads, and what was not asked for yet, had no effect, so it may be tried again.
  expect(await read).toMatchObject({ outcome: undefined, retryable: true });
  expect(await behind).toMatchObject({ outcome: undefined, retryable: true });
  expect(await adding).toMatchObject({ outcome: 'unknown', retryable: false });
  expect(await writing).toMatchObject({ outcome: 'unknown', retryable: false });
});
