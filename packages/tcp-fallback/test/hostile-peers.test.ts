// Longer than 300 lines: it is one list of what a hostile peer may send.
import { connect, createServer } from 'node:net';
import { type Listener, VerbmqError } from '@verbmq/core';
import { TcpTransport } from '@verbmq/tcp-fallback';
import { describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../../../test/support/until.js';
import { AbortCode, FrameType, smallFrame } from '../src/frame.js';
import { encodeHello } from '../src/hello.js';
import { bufferBytes, data, endOf, HELLO, host, RawPeer, rawPair, uint32 } from './raw-peer.js';

const MIB = 1024 * 1024;

/** Another peer of the same listener, to see that the trouble of one is not that of the others. */
async function bystander(listener: Listener): Promise<() => Promise<void>> {
  const transport = new TcpTransport();
  onTestFinished(() => transport.close());
  listener.onConnection((connection) => {
    connection.onMessage((message) => connection.trySend(message.data));
  });
  const connection = await transport.connect(listener.url);
  const answers = connection.messages();
  return async () => {
    await connection.send(Buffer.from('still there?'));
    const { value } = await answers.next();
    expect(Buffer.from(value?.data ?? []).toString()).toBe('still there?');
  };
}

describe('before its hello, a peer', () => {
  it.each([
    ['garbage', Buffer.from('lorem ipsum dolor sit amet'), /lorem|6c6f72656d20/],
    ['an HTTP request', Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n'), /an HTTP request/],
    ['a TLS ClientHello', Buffer.from([0x16, 3, 1, 2, 0, 1, 0, 1]), /a TLS ClientHello/],
  ])('that sends %s is refused in words, and nobody else notices', async (_name, bytes, words) => {
    const { listener } = await host();
    const check = await bystander(listener);
    const peer = await RawPeer.connect(listener);
    peer.write(bytes);
    await expect(peer.opening()).rejects.toThrow(words);
    await peer.gone;
    expect(listener.stats().failed).toBe(1);
    await check();
  });

  it('that speaks another version is told which one is spoken here', async () => {
    const { listener } = await host();
    const peer = await RawPeer.connect(listener);
    const hello = encodeHello(HELLO);
    hello.writeUInt8(9, 6);
    peer.write(hello);
    const refusal = await peer.opening().catch((error: VerbmqError) => error);
    expect(refusal).toBeInstanceOf(VerbmqError);
    expect((refusal as VerbmqError).code).toBe('ERR_VERBMQ_VERSION');
    expect((refusal as VerbmqError).message).toMatch(/version 9.*version 1/);
  });

  it('that never speaks is let go after handshakeTimeoutMs', async () => {
    const { listener } = await host({ handshakeTimeoutMs: 50 });
    const peer = await RawPeer.connect(listener);
    await expect(peer.opening()).rejects.toMatchObject({ code: 'ERR_VERBMQ_HANDSHAKE_TIMEOUT' });
    await peer.gone;
    expect(listener.stats().failed).toBe(1);
  });

  it('that stops within its hello is let go likewise', async () => {
    const { listener } = await host({ handshakeTimeoutMs: 50 });
    const peer = await RawPeer.connect(listener);
    peer.write(encodeHello(HELLO).subarray(0, 20));
    await expect(peer.opening()).rejects.toMatchObject({ code: 'ERR_VERBMQ_HANDSHAKE_TIMEOUT' });
    await peer.gone;
  });

  it('that claims a hello of 4 GiB is refused', async () => {
    const { listener } = await host();
    const peer = await RawPeer.connect(listener);
    const hello = encodeHello(HELLO);
    hello.writeUInt32LE(0xffffffff, 8);
    peer.write(hello);
    await expect(peer.opening()).rejects.toMatchObject({ code: 'ERR_VERBMQ_PROTOCOL' });
  });

  it('that hangs up is counted, and nothing more', async () => {
    const { listener } = await host();
    const check = await bystander(listener);
    const peer = await RawPeer.connect(listener);
    peer.socket.resetAndDestroy();
    await until(() => listener.stats().failed === 1);
    await check();
  });

  it('that is one too many is refused with ERR_VERBMQ_OVERLOADED', async () => {
    const { listener, transport } = await host({ maxConnections: 1 });
    const first = await transport.connect(listener.url);
    const refused = transport.connect(listener.url);
    await expect(refused).rejects.toMatchObject({ code: 'ERR_VERBMQ_OVERLOADED' });
    await first.close();
    // The room is there again as soon as the socket of the first is gone.
    for (;;) {
      const again = await transport.connect(listener.url).catch((error: VerbmqError) => error);
      if (!(again instanceof VerbmqError)) break;
      expect(again.code).toBe('ERR_VERBMQ_OVERLOADED');
    }
  });

  it('cannot fill the listener with handshakes that never end', async () => {
    const { listener, transport } = await host({ maxHandshakes: 2 });
    await RawPeer.connect(listener);
    await RawPeer.connect(listener);
    await expect(transport.connect(listener.url)).rejects.toMatchObject({ code: 'ERR_VERBMQ_OVERLOADED' });
  });
});

describe('after its hello, a peer', () => {
  const violations: [name: string, bytes: Buffer, words: RegExp][] = [
    ['garbage', Buffer.from('lorem ipsum dolor sit amet'), /malformed|unknown type|claims/],
    ['a claim of 4 GiB', Buffer.from([255, 255, 255, 255, 1, 0, 0, 0]), /claims 4294967295 bytes/],
    ['an unknown type', smallFrame(77), /unknown type 77/],
    ['a window that is too wide', smallFrame(FrameType.WINDOW, uint32(0xffffffff)), /granted more/],
    ['a short control frame', smallFrame(FrameType.WINDOW, new Uint8Array(3)), /malformed/],
    ['a piece of nothing', smallFrame(FrameType.DATA_PIECE, new Uint8Array(5)), /belongs to no message/],
    ['a long message of no bytes', smallFrame(FrameType.DATA_BEGIN, uint32(0)), /no bytes/],
    ['a message that is too long', smallFrame(FrameType.DATA_BEGIN, uint32(65 * MIB)), /exceeds/],
    [
      'a message within a message',
      Buffer.concat([smallFrame(FrameType.DATA_BEGIN, uint32(9)), data(new Uint8Array(1))]),
      /before the last one was complete/,
    ],
    [
      'a piece that is too long',
      Buffer.concat([
        smallFrame(FrameType.DATA_BEGIN, uint32(4)),
        smallFrame(FrameType.DATA_PIECE, new Uint8Array(5)),
      ]),
      /5 bytes came where 4 were missing/,
    ],
    [
      'a close within a message',
      Buffer.concat([smallFrame(FrameType.DATA_BEGIN, uint32(4)), smallFrame(FrameType.CLOSE)]),
      /closed within a message/,
    ],
    [
      'a message after its close',
      Buffer.concat([smallFrame(FrameType.CLOSE), data(new Uint8Array(1))]),
      /after it had closed/,
    ],
    ['an answer to no request', smallFrame(FrameType.READ_ANSWER, new Uint8Array(4)), /nobody made/],
    ['a WRITE_ANSWER to no request', smallFrame(FrameType.WRITE_ANSWER), /nobody made/],
    ['a key beyond its frame', smallFrame(FrameType.READ, Buffer.alloc(13, 255)), /key .* exceeds its frame/],
  ];

  it.each(violations)(
    'that sends %s ends its connection with ERR_VERBMQ_PROTOCOL',
    async (_name, bytes, words) => {
      const { peer, connection } = await rawPair();
      connection.onMessage(() => {});
      peer.write(bytes);
      const error = await endOf(connection);
      expect(error.code).toBe('ERR_VERBMQ_PROTOCOL');
      expect(error.message).toMatch(words);
      const abort = await peer.aborted();
      expect(abort.code).toBe(AbortCode.PROTOCOL);
      expect(abort.reason).toMatch(words);
      await peer.gone;
    },
  );

  it('does no harm to other connections by a violation', async () => {
    const { listener } = await host();
    const check = await bystander(listener);
    const peer = await RawPeer.connect(listener);
    peer.write(encodeHello(HELLO));
    await peer.opening();
    peer.write(smallFrame(77));
    await peer.gone;
    await check();
  });

  it('that ends within a frame is lost', async () => {
    const { peer, connection } = await rawPair();
    peer.write(data(new Uint8Array(100)).subarray(0, 50));
    peer.socket.end();
    expect((await endOf(connection)).code).toBe('ERR_VERBMQ_CONNECTION_LOST');
  });

  it('that stalls within a frame is found by heartbeats, and costs little meanwhile', async () => {
    const { peer, connection } = await rawPair({ heartbeatIntervalMs: 20, peerTimeoutMs: 60 });
    const before = bufferBytes();
    peer.write(smallFrame(FrameType.DATA_BEGIN, uint32(64 * MIB)));
    const piece = smallFrame(FrameType.DATA_PIECE);
    piece.writeUInt32LE(256 * 1024, 0);
    peer.write(piece, new Uint8Array(10));
    await peer.frameOf(FrameType.PING);
    expect(bufferBytes() - before).toBeLessThan(2 * MIB);
    expect((await endOf(connection)).code).toBe('ERR_VERBMQ_PEER_TIMEOUT');
    expect((await peer.aborted()).reason).toMatch(/peerTimeoutMs/);
  });

  it('that sends a million tiny messages in one write is held to the window', async () => {
    const { peer, connection } = await rawPair();
    const before = process.memoryUsage();
    const bytes = Buffer.alloc(9_000_000);
    for (let at = 0; at < bytes.byteLength; at += 9) bytes.set([1, 0, 0, 0, 1], at);
    peer.write(bytes); // and nobody reads
    const error = await endOf(connection);
    expect(error.code).toBe('ERR_VERBMQ_PROTOCOL');
    expect(error.message).toMatch(/receive window/);
    expect(connection.stats().messagesReceived).toBeLessThanOrEqual((4 * MIB) / 129);
    expect(process.memoryUsage().rss - before.rss).toBeLessThan(150 * MIB);
  });

  it('that keeps to the window may send a million tiny messages, and all are delivered', async () => {
    const { peer, connection } = await rawPair({ receiveWindowBytes: 512 * MIB });
    let received = 0;
    connection.onMessage((message) => {
      received += message.byteLength;
    });
    const bytes = Buffer.alloc(9_000_000);
    for (let at = 0; at < bytes.byteLength; at += 9) bytes.set([1, 0, 0, 0, 1], at);
    peer.write(bytes);
    await until(() => received === 1_000_000);
    expect(connection.state).toBe('open');
  });

  it('that sends a million pings and reads nothing costs no memory', async () => {
    const { peer, connection } = await rawPair();
    let received = 0;
    connection.onMessage(() => received++);
    peer.socket.pause();
    const pings = Buffer.alloc(8_000_000);
    for (let at = 0; at < pings.byteLength; at += 8) pings[at + 4] = FrameType.PING;
    const before = bufferBytes();
    for (let round = 0; round < 3; round++) {
      peer.write(pings);
      await peer.drained();
    }
    peer.write(data(new Uint8Array(1)));
    await until(() => received === 1);
    expect(connection.stats().bytesBuffered).toBeLessThan(128 * 1024);
    expect(bufferBytes() - before).toBeLessThan(3 * pings.byteLength + 4 * MIB);
  });

  it('that sends one byte at a time is served like any other', async () => {
    const { peer, connection } = await rawPair();
    const messages: string[] = [];
    connection.onMessage((message) => messages.push(Buffer.from(message.data).toString()));
    const bytes = Buffer.concat([
      data(Buffer.from('one')),
      smallFrame(FrameType.DATA_BEGIN, uint32(6)),
      smallFrame(FrameType.DATA_PIECE, Buffer.from('two')),
      smallFrame(FrameType.PING),
      smallFrame(FrameType.DATA_PIECE, Buffer.from('two')),
      data(Buffer.from('')),
    ]);
    for (const byte of bytes) {
      peer.write(Buffer.from([byte]));
      await peer.drained();
    }
    await until(() => messages.length === 3);
    expect(messages).toEqual(['one', 'twotwo', '']);
    await peer.frameOf(FrameType.PONG);
  });
});

describe('a server that is none', () => {
  /** What `connect` says to a server that answers with `answer`, or hangs up. */
  async function connectTo(answer: Buffer | undefined): Promise<VerbmqError> {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      if (answer === undefined) socket.end();
      else socket.write(answer);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => {
      server.close();
    });
    const transport = new TcpTransport();
    onTestFinished(() => transport.close());
    const { port } = server.address() as { port: number };
    return transport.connect({ host: '127.0.0.1', port }, { handshakeTimeoutMs: 100 }).then(
      () => Promise.reject(new Error('connected')),
      (error: VerbmqError) => error,
    );
  }

  it('is told from its answer', async () => {
    const error = await connectTo(Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'));
    expect(error.code).toBe('ERR_VERBMQ_PROTOCOL');
    expect(error.message).toMatch(/an HTTP server listens on this port/);
  });

  it('that hangs up is a failure to connect, in words', async () => {
    const error = await connectTo(undefined);
    expect(error.code).toBe('ERR_VERBMQ_CONNECT_FAILED');
    expect(error.message).toMatch(/expects TLS/);
  });

  it('that never speaks ends with the handshake timeout', async () => {
    const error = await connectTo(Buffer.alloc(0));
    expect(error.code).toBe('ERR_VERBMQ_HANDSHAKE_TIMEOUT');
  });

  it('leaves nothing behind at the listener when a bare socket connects and ends', async () => {
    const { listener } = await host();
    const { port } = listener.address as { port: number };
    const socket = connect(port, '127.0.0.1');
    socket.end();
    await new Promise((resolve) => socket.on('close', resolve).resume());
    await until(() => listener.stats().failed === 1);
  });
});
