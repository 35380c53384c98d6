import type { Address, Listener, ListenOptions } from '@verbmq/core';
import { AutoTransport } from '@verbmq/core/auto';
import { MemoryTransport } from '@verbmq/core/memory-transport';
import { describe, expect, onTestFinished, test } from 'vitest';
import { asAuto, autoWorld, Cable, onFast, QUICK } from '../support/auto-pair.js';
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

  test('are all listened on again when one is lost while another is still being opened', async () => {
    const cable = new Cable();
    let lose = 1;
    let listeners = 0;
    class Fast extends MemoryTransport {
      readonly #opened: Listener[] = [];
      override async listen(address: Address, options?: ListenOptions): Promise<Listener> {
        listeners++;
        // The device of the first goes, and takes its listener with it.
        if (this.#opened.length > 0 && lose-- > 0) await this.#opened.shift()?.close();
        const listener = await super.listen(address, options);
        this.#opened.push(listener);
        return listener;
      }
    }
    const base = new Cable();
    const transport = (fast: MemoryTransport): AutoTransport => {
      const made = new AutoTransport({
        ...QUICK,
        base: new MemoryTransport({ network: base.network }),
        fast,
      });
      onTestFinished(() => made.close());
      return made;
    };
    const server = transport(new Fast({ network: cable.network }));
    const client = transport(new MemoryTransport({ network: cable.network, faults: cable }));
    // Only the first can be reached.
    cable.connectTo = (address) => ('host' in address && address.host === 'first' ? 'accept' : 'refuse');
    const fastAddresses = ['first', 'second'].map((host) => ({ host, port: 7 }));
    const listening = server.listen({ host: 'here', port: 1 }, { fastAddresses });
    const listener = await listening.catch(() => server.listen({ host: 'here', port: 1 }, { fastAddresses }));
    listener.onConnection((connection) => void abortAfterTest(connection));
    await onFast(asAuto(abortAfterTest(await client.connect(listener.url))));
    expect(listeners).toBe(4);
  });

  test('need a fast transport', async () => {
    const world = autoWorld({ without: 'server' });
    await failure(
      world.serverTransport.listen({ host: 'here', port: 1 }, { fastAddresses: [{ host: 'a', port: 1 }] }),
      'ERR_VERBMQ_UNAVAILABLE',
    );
  });
});
