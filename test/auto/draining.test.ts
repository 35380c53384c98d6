import { MemoryTransport } from '@verbmq/core/memory-transport';
import { expect, onTestFinished, test } from 'vitest';
import { autoWorld } from '../support/auto-pair.js';
import { numbered } from '../support/messages.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { Kind, RawAutoPeer } from '../support/raw-auto-peer.js';

test.each([1, 3])(
  'drain() does not wait for the word of a peer that has %i messages and is silent',
  async (count) => {
    const world = autoWorld();
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
    const accepted = nextConnection(listener);
    const transport = new MemoryTransport({ network: world.base.network });
    onTestFinished(() => transport.close());
    const raw = await RawAutoPeer.connect(transport, listener.address);
    await raw.open();
    const session = abortAfterTest(await accepted);

    for (let n = 0; n < count; n++) expect(session.trySend(numbered(n))).toBe(true);
    await session.drain();
    await raw.next(count === 1 ? Kind.DATA : Kind.BATCH);
    expect(session.stats().bytesBuffered).toBe(0);
  },
);
