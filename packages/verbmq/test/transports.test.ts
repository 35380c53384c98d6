import { type AnyTransportOptions, type Connection, connect, createTransport, listen } from 'verbmq';
import { client, serve } from 'verbmq/rpc';
import { describe, expect, test } from 'vitest';
import { until } from '../../../test/support/until.js';

function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve!: () => void;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

describe('the choice of a transport', () => {
  test.each([
    ['tcp://127.0.0.1:1', 'tcp'],
    ['tls://127.0.0.1:1', 'tcp'],
    ['unix:///tmp/a', 'tcp'],
    ['rdma://127.0.0.1:1', 'rdma'],
    ['rdma', 'rdma'],
    ['verbmq://127.0.0.1:1', 'auto'],
    [{ host: '127.0.0.1', port: 1 }, 'tcp'],
    [{ path: '/tmp/a' }, 'tcp'],
  ])('%o is for the transport %s', async (address, kind) => {
    const transport = createTransport(address);
    expect(transport.kind).toBe(kind);
    await transport.close();
  });

  test('a scheme that nothing here takes is refused with those that are', () => {
    expect(() => createTransport('memory://a')).toThrow(
      expect.objectContaining({
        code: 'ERR_VERBMQ_INVALID_ADDRESS',
        message: expect.stringContaining('rdma://'),
      }),
    );
  });

  test.each<[string, AnyTransportOptions]>([
    ['tcp', { receiveWindowBytes: 1 }],
    ['rdma', { slotBytes: 1 }],
    ['verbmq', { windowBytes: 0 }],
    ['verbmq', { tcp: { receiveWindowBytes: 1 } }],
    ['verbmq', { rdma: { slotBytes: 1 } }],
  ])('%s gets its options: %o', (scheme, options) => {
    expect(() => createTransport(scheme, options)).toThrow(RangeError);
  });

  test.each(['toString', 'constructor', '__proto__'])('%s is no scheme', (name) => {
    expect(() => createTransport(name)).toThrow(
      expect.objectContaining({ code: 'ERR_VERBMQ_INVALID_ADDRESS' }),
    );
  });

  test.each(['tcp://127.0.0.1:0', 'verbmq://127.0.0.1:0'])(
    'a listener of %s that closes leaves its connections open, and its transport goes with the last of them',
    async (url) => {
      const listener = await listen(url);
      const served: Connection[] = [];
      listener.onConnection((connection) => {
        served.push(connection);
        connection.onMessage((message) => void connection.send(message.data));
      });
      const connections = [await connect(listener.url), await connect(listener.url)];
      await until(() => served.length === 2);
      await listener.close();
      for (const connection of connections) {
        const answers = connection.messages();
        await connection.send(Buffer.from('still there'));
        expect(Buffer.from((await answers.next()).value?.data ?? []).toString()).toBe('still there');
        await answers.return?.();
        expect(await connection.close()).toMatchObject({ graceful: true });
      }
      for (const connection of served) expect(await connection.closed).toMatchObject({ graceful: true });
    },
  );

  test('a call that runs is answered while its server closes', async () => {
    const listener = await listen('tcp://127.0.0.1:0');
    const begun = withResolvers();
    const finish = withResolvers();
    const server = serve(listener, {
      async work() {
        begun.resolve();
        await finish.promise;
        return 'done';
      },
    });
    const connection = await connect(listener.url);
    const answer = client<{ work(): Promise<string> }>(connection).work();
    await begun.promise;
    const closed = server.close();
    await listener.closed;
    finish.resolve();
    expect(await answer).toBe('done');
    await closed;
    expect(await connection.closed).toMatchObject({ graceful: true });
  });

  test('listen and connect need nothing but a URL, and clean up after themselves', async () => {
    const listener = await listen('tcp://127.0.0.1:0');
    listener.onConnection((connection) => {
      connection.onMessage((message) => void connection.send(message.data));
    });
    const connection = await connect(listener.url);
    await connection.send(Buffer.from('hello'));
    const { value } = await connection.messages().next();
    expect(Buffer.from(value?.data ?? []).toString()).toBe('hello');
    expect(await connection.close()).toMatchObject({ graceful: true });
    await listener.close();
  });

  test('what a verbmq:// address gives knows its path', async () => {
    const listener = await listen('verbmq://127.0.0.1:0', { policy: 'tcp' });
    const connection = await connect(`verbmq://127.0.0.1:${new URL(listener.url).port}`, { policy: 'tcp' });
    expect(connection.path).toMatchObject({ kind: 'tcp', fast: false, reason: 'policy' });
    await connection.close();
    await listener.close();
  });

  test('connect passes on what its transport takes', async () => {
    const here = { rdma: { localAddress: 'nowhere' } };
    await expect(connect('verbmq://127.0.0.1:1', here)).rejects.toThrow('localAddress must be an IP address');
    const options = { localAddress: 'nowhere' };
    await expect(connect('rdma://127.0.0.1:1', options)).rejects.toThrow(
      'localAddress must be an IP address',
    );
  });

  test('a failed listen or connect leaves nothing behind', async () => {
    await expect(connect('tcp://127.0.0.1:1')).rejects.toMatchObject({ code: 'ERR_VERBMQ_CONNECT_FAILED' });
    const listener = await listen('tcp://127.0.0.1:0');
    await expect(listen(listener.url)).rejects.toMatchObject({ code: 'ERR_VERBMQ_ADDRESS_IN_USE' });
    await listener.close();
  });
});
