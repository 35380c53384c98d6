import type { Listener } from '@verbmq/core';
import { describe, expect, test } from 'vitest';
import { asAuto, autoWorld, onFast } from '../support/auto-pair.js';
import { failure } from '../support/expectations.js';
import { abortAfterTest } from '../support/pair.js';

describe('named addresses of the fast transport', () => {
  test('are all listened on, and tried in order', async () => {
    const world = autoWorld();
    const fastAddresses = [
      { host: 'first', port: 7 },
      { host: 'second', port: 8 },
    ];
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 }, { fastAddresses });
    listener.onConnection((connection) => void abortAfterTest(connection));
    world.fast.connectTo = (address) => ('host' in address && address.host === 'first' ? 'refuse' : 'accept');
    const client = asAuto(abortAfterTest(await world.clientTransport.connect(listener.url)));
    await onFast(client);
  });

  test('leave time for each other where one hangs', async () => {
    const world = autoWorld({ client: { handshakeTimeoutMs: 2000 } });
    const fastAddresses = ['first', 'second', 'third'].map((host) => ({ host, port: 7 }));
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 }, { fastAddresses });
    listener.onConnection((connection) => void abortAfterTest(connection));
    world.fast.connectTo = (address) => ('host' in address && address.host === 'third' ? 'accept' : 'ignore');
    const client = asAuto(abortAfterTest(await world.clientTransport.connect(listener.url)));
    await onFast(client);
    expect(world.fast.attempts.length).toBe(3);
  });

  test('are as many as a peer takes', async () => {
    const world = autoWorld();
    const addresses = (count: number) =>
      Array.from({ length: count }, (_, n) => ({ host: `h${n}`, port: 7 }));
    const listen = (port: number, count: number): Promise<Listener> =>
      world.serverTransport.listen({ host: 'here', port }, { fastAddresses: addresses(count) });
    await expect(listen(1, 17)).rejects.toThrow(RangeError);
    const listener = await listen(2, 16);
    listener.onConnection((connection) => void abortAfterTest(connection));
    await onFast(asAuto(abortAfterTest(await world.clientTransport.connect(listener.url))));
  });

  test('that cannot be listened on are an error, not silence', async () => {
    const world = autoWorld();
    const fastAddresses = [{ host: 'twice', port: 7 }];
    await world.serverTransport.listen({ host: 'here', port: 1 }, { fastAddresses });
    await failure(
      world.serverTransport.listen({ host: 'here', port: 2 }, { fastAddresses }),
      'ERR_VERBMQ_ADDRESS_IN_USE',
    );
    // Nothing of the failed listen is left.
    await world.serverTransport.listen({ host: 'here', port: 2 });
  });

  test('need a fast transport', async () => {
    const world = autoWorld({ without: 'server' });
    await failure(
      world.serverTransport.listen({ host: 'here', port: 1 }, { fastAddresses: [{ host: 'a', port: 1 }] }),
      'ERR_VERBMQ_UNAVAILABLE',
    );
  });
});
