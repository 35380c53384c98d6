// Where listeners may listen, and by what they are reached: the device of a connection is that of its id, whatever was listened on.
import type { HostAddress } from '@verbmq/core';
import type { RdmaConnection } from '@verbmq/native';
import { describe, expect, test } from 'vitest';
import { failure } from '../support/expectations.js';
import { expectEchoes } from '../support/messages.js';
import { abortAfterTest, nextConnection, transportForTest } from '../support/pair.js';
import type { SetUp } from '../support/set-up.js';

export interface Hosts {
  /** Addresses of one device. */
  readonly v4: string;
  readonly v6: string;
  /** Whether who listens on the wildcard of IPv6 is reached by IPv4: sockets are, and Soft-iWARP is not (seen with Linux 6.1). */
  readonly v6TakesV4: boolean;
}

export function addresses({ v4, v6, v6TakesV4 }: Hosts, makeSetUp: () => SetUp): void {
  describe.each([
    [v4, [v4]],
    [v6, [v6]],
    ['0.0.0.0', [v4]],
    ['::', v6TakesV4 ? [v6, v4] : [v6]],
  ])('a listener on %s', (listening, reachable) => {
    test.each(reachable)('is reached by %s', async (host) => {
      const setUp = makeSetUp();
      const listener = await transportForTest(setUp).listen({ host: listening, port: 0 });
      const { port } = listener.address as HostAddress;
      expect(port).toBeGreaterThan(0);
      const bracketed = (address: string): string => (address.includes(':') ? `[${address}]` : address);
      expect(listener.url).toBe(`rdma://${bracketed(listening)}:${port}`);
      const accepted = nextConnection(listener);
      const client = await transportForTest(setUp).connect(`rdma://${bracketed(host)}:${port}`);
      abortAfterTest(client);
      const server = abortAfterTest(await accepted);
      await expectEchoes({ client, server }, 3);
      expect(client.remoteAddress).toEqual({ host, port });
      expect((client.localAddress as HostAddress).host).toBe(host);
      // Where both families come to one listener, the kernel may write an address of IPv4 as one of IPv6.
      const seen = (server.remoteAddress as HostAddress).host.replace(/^::ffff:/, '');
      expect(seen).toBe(host);
      expect((server as RdmaConnection).device).toBe((client as RdmaConnection).device);
      expect(await client.close()).toMatchObject({ graceful: true });
    });
  });

  if (v6TakesV4) return;
  test(`a listener on :: is not reached by ${v4}, and goes on`, async () => {
    const setUp = makeSetUp();
    const listener = await transportForTest(setUp).listen({ host: '::', port: 0 });
    const { port } = listener.address as HostAddress;
    const transport = transportForTest(setUp);
    const { message } = await failure(transport.connect({ host: v4, port }), 'ERR_VERBMQ_CONNECT_FAILED');
    expect(message).toContain('nobody listens there');
    expect(listener.stats()).toEqual({ accepted: 0, failed: 0 });
    const accepted = nextConnection(listener);
    const client = abortAfterTest(await transport.connect({ host: v6, port }));
    await expectEchoes({ client, server: abortAfterTest(await accepted) }, 3);
  });
}
