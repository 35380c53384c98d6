import { connect, createTransport, listen } from 'verbmq';
import { describe, expect, test } from 'vitest';

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

  test('a failed listen or connect leaves nothing behind', async () => {
    await expect(connect('tcp://127.0.0.1:1')).rejects.toMatchObject({ code: 'ERR_VERBMQ_CONNECT_FAILED' });
    const listener = await listen('tcp://127.0.0.1:0');
    await expect(listen(listener.url)).rejects.toMatchObject({ code: 'ERR_VERBMQ_ADDRESS_IN_USE' });
    await listener.close();
  });
});
