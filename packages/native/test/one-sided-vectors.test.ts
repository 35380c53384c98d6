// Vectors of one-sided operations: how they leave, and when their memory is the caller's again.
import { describe, expect, test } from 'vitest';
import { failure, isPending } from '../../../test/support/expectations.js';
import { pattern, sameBytes } from '../../../test/support/messages.js';
import type { Pair } from '../../../test/support/pair.js';
import {
  CompletionStatus,
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../../../test/support/simulated-device.js';
import { errno, expectNothingLeft, simulatedPair } from '../../../test/support/simulated-pair.js';
import { until } from '../../../test/support/until.js';

/** Work requests of one-sided operations that are posted at a time, and reads among them (operation_queue.h). */
const MOST_POSTED = 32;
const MOST_READS = 16;
/** Registered where it lies. */
const BORROWED = 600_000;

await onSimulatedDevice('rxe', (device) => {
  async function share({ client, server }: Pair, bytes: number) {
    const owned = await server.expose(bytes, { read: true, write: true });
    const remote = client.attach(owned.descriptor);
    // With iWARP the first write asks the owner for memory with which all writes are confirmed.
    await remote.write(0, new Uint8Array(1));
    return { owned, remote };
  }

  const posts = () => ({ chains: device.count('send-chains'), requests: device.calls('ibv_post_send') });

  /** What `begin` lets the client post within one turn of the loop. */
  async function postsOf(begin: () => Promise<unknown>): Promise<ReturnType<typeof posts>> {
    device.hold('hardware');
    const before = posts();
    const running = begin();
    expect(posts()).toEqual(before);
    await new Promise((resolve) => setImmediate(resolve));
    const after = posts();
    device.release('hardware');
    await running;
    return { chains: after.chains - before.chains, requests: after.requests - before.requests };
  }

  describe.each<Personality>(TESTED_PERSONALITIES)('vectors over a device like %s', (personality) => {
    const iwarp = personality === 'siw';

    test('leave in one chain, as far as the queue allows', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device, { heartbeatIntervalMs: 0 });
      const { owned, remote } = await share(pair, 100_000);
      const targets = Array.from({ length: MOST_READS }, (_, n) => ({ offset: n * 1000, target: 100 }));
      expect(await postsOf(() => remote.readv(targets))).toEqual({ chains: 1, requests: MOST_READS });
      // With iWARP one read confirms all of them.
      const writes = MOST_POSTED - (iwarp ? 1 : 0);
      const pieces = Array.from({ length: writes }, (_, n) => ({ offset: n * 100, data: pattern(100, n) }));
      expect(await postsOf(() => remote.writev(pieces))).toEqual({ chains: 1, requests: MOST_POSTED });
      expect(sameBytes(owned.data.subarray(0, writes * 100), concat(pieces))).toBe(true);
      // What is more waits for the first ones, and not for a call of the application.
      const many = Array.from({ length: 1000 }, (_, n) => ({ offset: n * 100, data: pattern(100, n + 1) }));
      expect(await postsOf(() => remote.writev(many))).toEqual({ chains: 1, requests: MOST_POSTED });
      expect(sameBytes(owned.data, concat(many))).toBe(true);
      await expectNothingLeft(device, pair);
    });

    test('are confirmed with one read, and not with one for each piece', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device, { heartbeatIntervalMs: 0 });
      const { remote } = await share(pair, 1000);
      const before = device.count('reads');
      await remote.writev(Array.from({ length: 10 }, (_, n) => ({ offset: n * 100, data: pattern(100) })));
      expect(device.count('reads') - before).toBe(iwarp ? 1 : 0);
      await expectNothingLeft(device, pair);
    });

    test('end when every piece has ended, so that no device works on memory that is given back', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const { owned, remote } = await share(pair, BORROWED);
      owned.data.fill(7);
      const target = new Uint8Array(BORROWED);
      device.hold('hardware');
      const small = remote.read(0, 10);
      const all = remote.readv([
        { offset: 0, target: 10 },
        { offset: 0, target },
      ]);
      all.catch(() => {});
      await until(() => device.held('hardware') > 0);
      pair.client.abort();
      await failure(small, 'ERR_VERBMQ_ABORTED');
      expect(device.live('qp')).toBe(2);
      expect(await isPending(all)).toBe(true);
      device.release('hardware');
      await failure(all, 'ERR_VERBMQ_ABORTED');
      const filled = target.slice();
      await expectNothingLeft(device, pair);
      expect(sameBytes(target, filled)).toBe(true);
    });

    test('one piece that fails is the error of all, and of writes nobody knows which were done', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const { remote } = await share(pair, 1000);
      const pieces = [0, 1, 2, 3].map((n) => ({ offset: n * 100, data: pattern(100), target: 100 }));
      device.hold('hardware');
      const writing = remote.writev(pieces);
      const reading = remote.readv(pieces);
      for (const each of [writing, reading]) each.catch(() => {});
      await until(() => device.held('hardware') >= 2);
      device.failWork(CompletionStatus.remoteOperation, 2);
      device.release('hardware');
      expect(await failureOf(writing)).toMatchObject({ outcome: 'unknown' });
      expect(await failureOf(reading)).toMatchObject({ outcome: undefined });
      await pair.client.closed;
      await expectNothingLeft(device, pair);
    });

    test('a piece whose memory cannot be registered fails alone, and the error says whether others were written', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const { owned, remote } = await share(pair, 2 * BORROWED);
      await remote.read(0, 100); // there is memory for short ones from now on
      const short = { offset: 0, data: pattern(100), target: 100 };
      const long = { offset: BORROWED, data: pattern(BORROWED), target: BORROWED };
      device.failCall('ibv_reg_mr', errno.ENOMEM, { times: -1 });
      expect(await failureOf(remote.readv([short, long]))).toMatchObject({ outcome: undefined });
      expect(await failureOf(remote.writev([long, long]))).toMatchObject({ outcome: undefined });
      expect(await failureOf(remote.writev([long, short]))).toMatchObject({ outcome: 'unknown' });
      expect(sameBytes(owned.data.subarray(0, 100), pattern(100))).toBe(true);
      expect(pair.client.state).toBe('open');
      resetForTest(device, personality);
      await remote.writev([short, long]);
      expect(sameBytes(owned.data.subarray(BORROWED), pattern(BORROWED))).toBe(true);
      await expectNothingLeft(device, pair);
    });
  });
});

function concat(pieces: readonly { readonly data: Uint8Array }[]): Uint8Array {
  return Buffer.concat(pieces.map(({ data }) => data));
}

/** How a vector failed that must. */
function failureOf(vector: Promise<unknown>): ReturnType<typeof failure> {
  return failure(
    vector,
    'ERR_VERBMQ_CONNECTION_LOST',
    'ERR_VERBMQ_DEVICE',
    'ERR_VERBMQ_NO_BUFFERS',
    'ERR_VERBMQ_PEER_ABORTED',
    'ERR_VERBMQ_REMOTE_ACCESS',
  );
}
