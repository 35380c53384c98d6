import { expect, test } from 'vitest';
import { numbered } from '../support/messages.js';
import { Kind, rawPair } from '../support/raw-auto-peer.js';

test.each([1, 3])(
  'drain() does not wait for the word of a peer that has %i messages and is silent',
  async (count) => {
    const { raw, server: session } = await rawPair();

    for (let n = 0; n < count; n++) expect(session.trySend(numbered(n))).toBe(true);
    await session.drain();
    await raw.next(count === 1 ? Kind.DATA : Kind.BATCH);
    expect(session.stats().bytesBuffered).toBe(0);
  },
);
