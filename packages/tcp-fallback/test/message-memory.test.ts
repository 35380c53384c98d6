import type { Connection, Message } from '@verbmq/core';
import { TcpTransport } from '@verbmq/tcp-fallback';
import { describe, expect, it, onTestFinished } from 'vitest';
import { expectBytes, pattern } from '../../../test/support/messages.js';
import { nextConnection } from '../../../test/support/pair.js';
import { until } from '../../../test/support/until.js';
import { bufferBytes } from './raw-peer.js';

const MIB = 1024 * 1024;

async function pair(): Promise<{ client: Connection; server: Connection }> {
  const transport = new TcpTransport();
  onTestFinished(() => transport.close());
  const listener = await transport.listen('tcp://127.0.0.1:0');
  const accepted = nextConnection(listener);
  const client = await transport.connect(listener.url);
  return { client, server: await accepted };
}

describe('the memory of long messages over TCP', () => {
  it('is used again when the lease has ended', async () => {
    const { client, server } = await pair();
    const buffers = new Set<ArrayBufferLike>();
    server.onMessage(({ data }) => buffers.add(data.buffer));
    for (let i = 0; i < 10; i++) await client.send(pattern(MIB, i));
    await until(() => server.stats().messagesReceived === 10);
    expect(buffers.size).toBe(1);
  });

  it('costs no garbage, and nor do the chunks in which it came', async () => {
    const { client, server } = await pair();
    const message = pattern(MIB);
    const before = bufferBytes();
    let most = 0;
    server.onMessage(() => {
      most = Math.max(most, bufferBytes() - before);
    });
    for (let i = 0; i < 100; i++) await client.send(message);
    await until(() => server.stats().messagesReceived === 100);
    expect(most).toBeLessThan(8 * MIB); // V8 would let 32 MiB come together before it collects any
  });

  it('is not used again while the application keeps the message', async () => {
    const { client, server } = await pair();
    const kept: Message[] = [];
    server.onMessage((message) => {
      kept.push(message.retain());
      if (kept.length === 4) kept.shift()?.release();
    });
    for (let i = 0; i < 20; i++) await client.send(pattern(MIB, i));
    await until(() => server.stats().messagesReceived === 20);
    for (const [i, message] of kept.entries()) expectBytes(message.data, pattern(MIB, 17 + i));
  });

  it('becomes the own memory of an application that keeps many messages and releases none', async () => {
    const { client, server } = await pair();
    const kept: Message[] = [];
    server.onMessage((message) => kept.push(message.retain()));
    for (let i = 0; i < 40; i++) await client.send(pattern(MIB, i));
    await until(() => kept.length === 40);
    await client.close();
    await server.closed;
    for (const [i, message] of kept.entries()) {
      expectBytes(message.data, pattern(MIB, i));
      message.release();
    }
  });

  it('may be sent on by a handler, kept or not', async () => {
    const { client, server } = await pair();
    let count = 0;
    server.onMessage((message) => {
      if (count++ % 2 === 0) {
        void server.send(message.data);
        return;
      }
      message.retain();
      void server.send(message.data).then(() => message.release());
    });
    let answers = 0;
    client.onMessage(({ data }) => {
      expectBytes(data, pattern(MIB, answers));
      answers++;
    });
    await Promise.all(Array.from({ length: 24 }, (_, i) => client.send(pattern(MIB, i))));
    await until(() => answers === 24);
  });

  it('is as long as the message, whatever length it was cut to', async () => {
    const { client, server } = await pair();
    const lengths = [MIB, 17_000, 65_537, 700_000, MIB + 4096, MIB + 4097, 3 * MIB, MIB - 1];
    let received = 0;
    server.onMessage(({ data }) => {
      expectBytes(data, pattern(lengths[received] as number, received));
      received++;
    });
    for (const [i, length] of lengths.entries()) await client.send(pattern(length, i));
    await until(() => received === lengths.length);
  });
});
