import { type Connection, type Listener, VerbmqError } from '@verbmq/core';
import { TcpTransport, type TcpTransportOptions } from '@verbmq/tcp-fallback';
import { describe, expect, it, onTestFinished } from 'vitest';
import { outcomeOf } from '../../../test/support/expectations.js';
import { expectBytes, fill, pattern, take } from '../../../test/support/messages.js';
import { nextConnection } from '../../../test/support/pair.js';
import { until } from '../../../test/support/until.js';
import { FrameType, smallFrame } from '../src/frame.js';
import { bufferBytes, collectGarbage, data, endOf, rawPair, uint32 } from './raw-peer.js';

const KIB = 1024;
const MIB = 1024 * KIB;

async function pair(options: TcpTransportOptions = {}): Promise<{ client: Connection; server: Connection }> {
  const transport = new TcpTransport(options);
  const listener: Listener = await transport.listen('tcp://127.0.0.1:0');
  const accepted = nextConnection(listener);
  const client = await transport.connect(listener.url);
  const server = await accepted;
  onTestFinished(async () => {
    client.abort('the test is over');
    server.abort('the test is over');
    await transport.close();
  });
  return { client, server };
}

describe('flow control', () => {
  it('grants again what the application has taken, in few frames', async () => {
    const { peer, connection } = await rawPair({ receiveWindowBytes: 64 * KIB });
    connection.onMessage(() => {});
    let granted = 0;
    const message = data(new Uint8Array(1000));
    // 1,128 bytes a message; a quarter of the window is granted at a time.
    for (let i = 0; i < 15; i++) peer.write(message);
    granted += (await peer.frameOf(FrameType.WINDOW)).payload.readUInt32LE(0);
    expect(granted).toBeGreaterThanOrEqual(16 * KIB);
    expect(granted).toBeLessThanOrEqual(15 * 1128);
  });

  it('grants nothing for messages that wait for the application', async () => {
    const { peer, connection } = await rawPair({ receiveWindowBytes: 64 * KIB });
    for (let i = 0; i < 50; i++) peer.write(data(new Uint8Array(1000)));
    await until(() => connection.stats().messagesQueued === 50);
    peer.write(smallFrame(FrameType.PING));
    expect((await peer.frame()).type).toBe(FrameType.PONG); // and no WINDOW before it
    connection.onMessage(() => {});
    const { payload } = await peer.frameOf(FrameType.WINDOW);
    expect(payload.readUInt32LE(0)).toBeGreaterThanOrEqual(16 * KIB);
  });

  it.each([
    ['the frames around them', [data(Uint8Array.of(1)), ...Array(8000).fill(smallFrame(FrameType.PONG))]],
    [
      'what pieces are collected in',
      [smallFrame(FrameType.DATA_BEGIN, uint32(1)), smallFrame(FrameType.DATA_PIECE, Uint8Array.of(1))],
    ],
  ])('holds tiny messages that wait without %s', async (_, frames) => {
    const { peer, connection } = await rawPair();
    const block = Buffer.concat(frames);
    collectGarbage();
    const before = bufferBytes();
    const count = Math.min(10_000, Math.ceil((64 * MIB) / block.byteLength));
    for (let i = 0; i < count; i++) {
      peer.write(block);
      if (i % 64 === 0) await peer.drained();
    }
    await until(() => connection.stats().messagesQueued === count);
    await until(() => {
      collectGarbage();
      return bufferBytes() - before < 4 * MIB;
    });
    expect(connection.stats().messagesQueued).toBe(count);
  });

  it('ends a connection that exceeds its window', async () => {
    const { peer, connection } = await rawPair({ receiveWindowBytes: 64 * KIB });
    for (let i = 0; i < 66; i++) peer.write(data(new Uint8Array(1000)));
    expect((await endOf(connection)).message).toMatch(/more than the receive window allows/);
  });

  it('carries messages longer than the window, one behind the other', async () => {
    const { client, server } = await pair({ receiveWindowBytes: 64 * KIB });
    const messages = [
      pattern(MIB, 1),
      pattern(10, 2),
      pattern(5 * MIB, 3),
      pattern(100 * KIB, 4),
      pattern(0),
    ];
    const received = take(server, messages.length);
    const sent = messages.map((message) => client.send(message));
    for (const [i, message] of (await received).entries()) expectBytes(message, messages[i] as Uint8Array);
    await Promise.all(sent);
  });

  it('holds back a peer whose long messages nobody takes', async () => {
    const { client, server } = await pair({ receiveWindowBytes: 256 * KIB, highWaterMarkBytes: 64 * KIB });
    const before = bufferBytes();
    const message = new Uint8Array(MIB);
    let taken = 0;
    for (let i = 0; i < 50; i++) {
      client.send(message).then(
        () => taken++,
        () => {},
      );
    }
    await until(() => server.stats().messagesQueued > 0);
    // What the server holds now is one message; it grants no more, however long one waits.
    for (let i = 0; i < 200; i++) await new Promise((resolve) => setImmediate(resolve));
    expect(server.stats().messagesQueued).toBeLessThanOrEqual(2);
    expect(bufferBytes() - before).toBeLessThan(8 * MIB);
    server.onMessage(() => {});
    await until(() => taken === 50 && server.stats().messagesReceived === 50);
  });

  it('lets control frames, one-sided operations and the close through while nothing is read', async () => {
    // A busy machine may stop a process for as long as a shorter time.
    const peerTimeoutMs = 1000;
    const { client, server } = await pair({ heartbeatIntervalMs: 50, peerTimeoutMs });
    const exposed = await server.expose(64, { read: true, write: true, atomic: true });
    const sent = await fill(client, () => new Uint8Array(10_000));
    expect(sent).toBeGreaterThan(100);
    const memory = client.attach(exposed.descriptor);
    const silentUntil = performance.now() + 1.5 * peerTimeoutMs;
    for (let i = 0; performance.now() < silentUntil; i++) {
      expect(await memory.fetchAdd(0, 1n)).toBe(BigInt(i));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(client.state).toBe('open');
    expect(server.state).toBe('open');
    const closed = client.close();
    await until(() => server.state === 'closing');
    server.onMessage(() => {});
    expect(await closed).toEqual({ graceful: true, initiator: 'local' });
    expect(server.stats().messagesReceived).toBe(sent);
  });

  it('keeps its place while a long message waits for credit: what follows comes after it', async () => {
    const { peer, connection } = await rawPair({}, { receiveWindowBytes: 64 * KIB });
    const long = pattern(200 * KIB, 7);
    const first = connection.send(long);
    const second = connection.send(Buffer.from('behind it'));
    let received = Buffer.alloc(0);
    expect((await peer.frameOf(FrameType.DATA_BEGIN)).payload.readUInt32LE(0)).toBe(long.byteLength);
    while (received.byteLength < long.byteLength) {
      const { type, payload } = await peer.frame();
      expect(type).toBe(FrameType.DATA_PIECE);
      received = Buffer.concat([received, payload]);
      peer.write(smallFrame(FrameType.WINDOW, uint32(payload.byteLength + 128)));
    }
    expectBytes(received, long);
    const last = await peer.frame();
    expect([last.type, last.payload.toString()]).toEqual([FrameType.DATA, 'behind it']);
    await Promise.all([first, second]);
  });

  it('sends as soon as a grant makes room, with nothing else to send', async () => {
    const { peer, connection } = await rawPair({}, { receiveWindowBytes: 64 * KIB });
    while (connection.trySend(new Uint8Array(1000))) {}
    const waiting = connection.send(Buffer.from('when there is room'));
    for (let i = 0; i < 58; i++) await peer.frameOf(FrameType.DATA);
    peer.write(smallFrame(FrameType.WINDOW, uint32(30_000)));
    await waiting;
    expect((await peer.frame()).payload.toString()).toBe('when there is room');
  });

  it('puts control frames between the pieces of a long message', async () => {
    const { peer, connection } = await rawPair({}, { receiveWindowBytes: 64 * KIB });
    void connection.send(pattern(MIB)).catch(() => {});
    await peer.frameOf(FrameType.DATA_PIECE);
    peer.write(smallFrame(FrameType.PING)); // no credit: the message stands still
    await peer.frameOf(FrameType.PONG);
    peer.write(smallFrame(FrameType.WINDOW, uint32(20_000)));
    await peer.frameOf(FrameType.DATA_PIECE);
  });

  it('counts what it holds, until it has left', async () => {
    const { client } = await pair();
    expect(client.stats().bytesBuffered).toBe(0);
    client.trySend(new Uint8Array(1000));
    expect(client.stats().bytesBuffered).toBe(1008);
    await client.drain();
    expect(client.stats().bytesBuffered).toBe(0);
  });

  it('stops at the high-water mark when the kernel takes no more, with what the socket holds counted in', async () => {
    const { peer, connection } = await rawPair(
      { highWaterMarkBytes: 100 * KIB },
      { receiveWindowBytes: 2 ** 30 },
    );
    peer.socket.pause();
    const message = new Uint8Array(10_000);
    let sent = 0;
    while (connection.trySend(message)) sent++;
    const { bytesBuffered } = connection.stats();
    expect(bytesBuffered).toBeGreaterThanOrEqual(100 * KIB);
    expect(bytesBuffered).toBeLessThanOrEqual(100 * KIB + 64 * KIB + 10_008);
    const waiting = connection.send(message);
    peer.socket.resume();
    await waiting;
    await connection.drain();
    expect(connection.stats().bytesBuffered).toBe(0);
    for (let i = 0; i <= sent; i++) await peer.frameOf(FrameType.DATA);
  });

  it('copies what trySend takes, and borrows what send takes until it settles', async () => {
    const { client, server } = await pair();
    const buffer = pattern(300 * KIB, 1);
    const expected = new Uint8Array(buffer);
    const received = take(server, 2);
    expect(client.trySend(buffer)).toBe(true);
    buffer.fill(0);
    const again = new Uint8Array(expected);
    await client.send(again);
    again.fill(0);
    for (const message of await received) expectBytes(message, expected);
  });

  it('tells who waits with a part sent that the outcome is unknown, and the others that nothing was sent', async () => {
    const { peer, connection } = await rawPair({}, { receiveWindowBytes: 64 * KIB });
    const begun = connection.send(new Uint8Array(MIB)).catch((error: VerbmqError) => error);
    const waiting = connection.send(new Uint8Array(MIB)).catch((error: VerbmqError) => error);
    await peer.frameOf(FrameType.DATA_PIECE);
    peer.socket.resetAndDestroy();
    expect(await begun).toMatchObject({ code: 'ERR_VERBMQ_CONNECTION_LOST', outcome: 'unknown' });
    const second = (await waiting) as VerbmqError;
    expect(second).toBeInstanceOf(VerbmqError);
    expect(second.outcome).toBeUndefined();
  });

  it('checks its options', async () => {
    expect(await outcomeOf(() => new TcpTransport({ receiveWindowBytes: 1000 }))).toBe(RangeError);
    expect(await outcomeOf(() => new TcpTransport({ oneSidedWindowBytes: 2 ** 31 }))).toBe(RangeError);
    const transport = new TcpTransport();
    const listening = (options: object) => outcomeOf(() => transport.listen('tcp://127.0.0.1:0', options));
    expect(await listening({ receiveWindowBytes: '4 MiB' })).toBe(TypeError);
    expect(await listening({ maxConnections: 0 })).toBe(RangeError);
    expect(await listening({ maxHandshakes: 1.5 })).toBe(RangeError);
    await transport.close();
  });
});

describe('a message that is kept', () => {
  it('does not keep the chunk in which it came, nor its window', async () => {
    const { peer, connection } = await rawPair({ receiveWindowBytes: 64 * KIB });
    const kept: Uint8Array[] = [];
    connection.onMessage((message) => {
      kept.push(message.retain().data);
    });
    for (let i = 0; i < 40; i++)
      peer.write(Buffer.concat([data(new Uint8Array(10)), data(pattern(1000, i))]));
    await peer.frameOf(FrameType.WINDOW);
    await until(() => kept.length === 80);
    for (let i = 0; i < 40; i++) {
      const [small, large] = [kept[2 * i] as Uint8Array, kept[2 * i + 1] as Uint8Array];
      expect(small.buffer.byteLength).toBeLessThanOrEqual(2 * 10);
      expect(large.buffer.byteLength).toBeLessThanOrEqual(2 * 1000);
      expectBytes(large, pattern(1000, i));
    }
  });
});
