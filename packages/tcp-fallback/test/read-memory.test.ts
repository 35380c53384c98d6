import net from 'node:net';
import type { Connection, Listener, Message } from '@verbmq/core';
import { TcpTransport } from '@verbmq/tcp-fallback';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { expectBytes, pattern } from '../../../test/support/messages.js';
import { nextConnection } from '../../../test/support/pair.js';
import { until } from '../../../test/support/until.js';
import { encodeHello } from '../src/hello.js';

const A = pattern(500, 1);
const B = pattern(500, 2);

/** Two connections whose clients read into the same memory. */
let first: { client: Connection; server: Connection };
let second: { client: Connection; server: Connection };

beforeEach(async () => {
  const transport = new TcpTransport();
  onTestFinished(() => transport.close());
  const listener = await transport.listen('tcp://127.0.0.1:0');
  first = await connect(transport, listener);
  second = await connect(transport, listener);
});

async function connect(transport: TcpTransport, listener: Listener): Promise<typeof first> {
  const accepted = nextConnection(listener);
  const client = await transport.connect(listener.url);
  return { client, server: await accepted };
}

function next<T>(connection: Connection, inHandler: (message: Message) => T): Promise<T> {
  return new Promise((resolve) => {
    const detach = connection.onMessage((message) => {
      const result = inHandler(message);
      detach();
      resolve(result);
    });
  });
}

/** The second client reads something, and does nothing before it has. */
async function readAnother(): Promise<void> {
  const read = next(second.client, ({ data }) => expectBytes(data, B));
  await second.server.send(B);
  await read;
}

describe('what a client reads into memory that is used again', () => {
  it('stays while its message is retained', async () => {
    const kept = next(first.client, (message) => message.retain());
    await first.server.send(A);
    const message = await kept;
    await readAnother();
    expectBytes(message.data, A);
  });

  it('stays while its message waits for a handler', async () => {
    await first.server.send(A);
    await until(() => first.client.stats().messagesQueued === 1);
    await readAnother();
    await next(first.client, ({ data }) => expectBytes(data, A));
  });

  it('stays for a loop that has got its message', async () => {
    const messages = first.client.messages();
    const got = messages.next();
    await first.server.send(A);
    const { value } = await got;
    await readAnother();
    expectBytes((value as Message).data, A);
  });
});

describe('a hello that comes byte by byte', () => {
  it('is not mixed with what others read meanwhile', async () => {
    const hello = encodeHello({ maxMessageBytes: 1e6, receiveWindowBytes: 1e6, oneSidedWindowBytes: 1e6 });
    const server = net.createServer(async (socket) => {
      socket.on('error', () => {}).resume();
      for (const byte of hello) {
        await new Promise<void>((resolve) => {
          socket.write(Uint8Array.of(byte), () => resolve());
        });
        await readAnother();
      }
    });
    onTestFinished(() => void server.close());
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const transport = new TcpTransport();
    const { port } = server.address() as net.AddressInfo;
    const connection = await transport.connect({ host: '127.0.0.1', port });
    expect(connection.maxMessageBytes).toBe(1e6);
    connection.abort();
    await connection.closed;
  });
});
