import { existsSync } from 'node:fs';
import { type Connection, VerbmqError } from '@verbmq/core';
import { encodeDescriptor } from '@verbmq/core/transport-kit';
import { TcpTransport } from '@verbmq/tcp-fallback';
import { describe, expect, it, onTestFinished } from 'vitest';
import { expectBytes, fill, pattern, take } from '../../../test/support/messages.js';
import { nextConnection } from '../../../test/support/pair.js';
import { PeerProcess } from '../../../test/support/peer-process.js';
import { tcpSetUp, tlsSetUp, unixSetUp } from '../../../test/support/transports/tcp.js';
import { until } from '../../../test/support/until.js';
import { AbortCode, abortFrame, FrameType, smallFrame } from '../src/frame.js';
import type { TcpConnection } from '../src/tcp-connection.js';
import {
  bufferBytes,
  collectGarbage,
  data,
  endOf,
  host,
  type RawPair,
  RawPeer,
  rawPair,
} from './raw-peer.js';

const MIB = 1024 * 1024;

/** Sockets of this process. */
function sockets(): string[] {
  return process.getActiveResourcesInfo().filter((name) => /TCP|TLS/.test(name));
}

async function pair(
  options = {},
): Promise<{ client: Connection; server: Connection; transport: TcpTransport }> {
  const transport = new TcpTransport(options);
  const listener = await transport.listen('tcp://127.0.0.1:0');
  const accepted = nextConnection(listener);
  const client = await transport.connect(listener.url);
  const server = await accepted;
  onTestFinished(() => {
    client.abort('the test is over');
    server.abort('the test is over');
  });
  return { client, server, transport };
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** Sends until the kernel does not take all of it. */
async function untilStuck(connection: Connection, send: () => void): Promise<void> {
  do {
    send();
    await turns();
  } while (connection.stats().bytesBuffered === 0);
}

/** What a test writes over memory that it has back, and nobody may see. */
const OVERWRITTEN = 0xee;

describe('memory that was lent to a connection', () => {
  const WAYS = {
    'an abort': ({ connection }: RawPair) => connection.abort('enough'),
    'a close that takes too long': ({ connection }: RawPair) => void connection.close(),
    'a violation by the peer': ({ peer }: RawPair) => void peer.write(new Uint8Array(8).fill(0xff)),
  };
  const LENT = {
    messages: (connection: Connection, lend: Lend) => {
      const remote = connection.attach(
        encodeDescriptor({
          address: 0n,
          byteLength: MIB,
          access: { read: false, write: true, atomic: false },
          key: new Uint8Array(16),
        }),
      );
      lend(600_000, (bytes) => connection.send(bytes));
      lend(300_000, (bytes) => remote.write(0, bytes));
    },
    pieces: (connection: Connection, lend: Lend) => lend(3 * MIB, (bytes) => connection.send(bytes)),
  };
  type Lend = (bytes: number, use: (memory: Uint8Array) => Promise<void>) => void;

  it.each(
    (Object.keys(LENT) as (keyof typeof LENT)[]).flatMap((what) =>
      (Object.keys(WAYS) as (keyof typeof WAYS)[]).map((way) => [what, way] as const),
    ),
  )('for %s is not read any more when %s gives it back', async (what, way) => {
    const pair = await rawPair(
      { highWaterMarkBytes: 2 ** 28, closeTimeoutMs: 50 },
      { receiveWindowBytes: 2 ** 30, oneSidedWindowBytes: 2 ** 30 },
    );
    const { peer, connection } = pair;
    peer.socket.removeAllListeners('data').pause();
    const errors: VerbmqError[] = [];
    await untilStuck(connection, () =>
      LENT[what](connection, (bytes, use) => {
        const memory = new Uint8Array(bytes).fill(1);
        use(memory).catch((error: VerbmqError) => {
          errors.push(error);
          memory.fill(OVERWRITTEN);
        });
      }),
    );
    WAYS[way](pair);
    await connection.ending;
    await turns(); // whoever is told now has written over it before the peer reads
    let seen = 0;
    peer.socket.on('data', (chunk) => {
      if (chunk.includes(OVERWRITTEN)) seen++;
    });
    peer.socket.resume();
    const [{ error }] = await Promise.all([connection.closed, peer.gone]);
    await turns();
    expect(seen).toBe(0);
    expect(errors.length).toBeGreaterThan(0);
    for (const each of errors) expect(each).toMatchObject({ code: error?.code, outcome: 'unknown' });
  });
});

describe('the end of a connection', () => {
  it('leaves no socket, in order or not', async () => {
    for (const end of ['close', 'abort'] as const) {
      const { client, server, transport } = await pair();
      expect(sockets()).not.toEqual([]);
      if (end === 'close') await client.close();
      else client.abort('enough');
      await Promise.all([client.closed, server.closed]);
      await transport.close();
      await until(() => sockets().length === 0);
    }
  });

  it.each([
    ['TCP', tcpSetUp],
    ['TLS', tlsSetUp],
    ['a Unix socket', unixSetUp],
  ])(
    'by a peer that is killed in the middle of traffic over %s is one clear error, and the memory comes back',
    async (_, setUpOf) => {
      const setUp = setUpOf();
      const peer = new PeerProcess(setUp, { role: 'listen', reads: true, floods: 100_000, exposes: 64 });
      const transport = setUp.createTransport();
      onTestFinished(() => transport.close());
      const before = bufferBytes();
      const connection = await transport.connect(await peer.url());
      let received = 0;
      connection.onMessage(() => received++);
      const sends: Promise<unknown>[] = [];
      const message = new Uint8Array(MIB);
      const failures = new Set<string>();
      const pump = (): void => {
        sends.push(
          connection.send(message).then(pump, (error: VerbmqError) => {
            failures.add(error.code);
          }),
        );
      };
      for (let i = 0; i < 8; i++) pump();
      await until(() => received > 50 && connection.stats().messagesSent > 20);
      peer.kill('SIGKILL');
      const killedAt = performance.now();
      const error = await endOf(connection);
      expect(performance.now() - killedAt).toBeLessThan(5000);
      expect(error.code).toBe('ERR_VERBMQ_CONNECTION_LOST');
      await until(() => failures.size > 0);
      for (const code of failures)
        expect(['ERR_VERBMQ_CONNECTION_LOST', 'ERR_VERBMQ_CLOSED']).toContain(code);
      sends.length = 0;
      await until(() => {
        collectGarbage();
        return bufferBytes() - before < 4 * MIB;
      });
    },
  );

  it('by memory that cannot be had for a message is that of one connection alone', async (context) => {
    if (!existsSync('/usr/bin/prlimit')) context.skip('prlimit is missing');
    const options = { maxMessageBytes: 1024 * MIB };
    const peer = new PeerProcess(tcpSetUp(), { role: 'listen', echoes: true, options });
    const transport = new TcpTransport(options);
    onTestFinished(() => transport.close());
    const url = await peer.url();
    const [connection, other] = [await transport.connect(url), await transport.connect(url)];
    peer.limitMemory(200 * MIB); // the message gets 64 MiB at first, and then needs 256 MiB
    const sent = connection.send(new Uint8Array(1024 * MIB)).catch((error: VerbmqError) => error);
    const error = await endOf(connection);
    expect(error.code).toBe('ERR_VERBMQ_PEER_ABORTED');
    expect(error.message).toMatch(/memory cannot be had/);
    expect(await sent).toMatchObject({ code: error.code, outcome: 'unknown' });
    expect((await peer.reported('closed')).code).toBe('ERR_VERBMQ_NO_BUFFERS');
    await other.send(pattern(1000));
    expectBytes((await take(other, 1))[0] as Uint8Array, pattern(1000));
  });

  it('by a fault of this side is told, and the peer is too', async () => {
    const { peer, connection } = await rawPair();
    expect(() => (connection as TcpConnection).receiveChunk(undefined as never)).toThrow(TypeError);
    expect((await endOf(connection)).cause).toBeInstanceOf(TypeError);
    expect((await peer.aborted()).reason).toMatch(/this side could not handle what came/);
  });

  it('by a peer that hangs while its kernel acknowledges is found by heartbeats', async () => {
    const peer = new PeerProcess(tcpSetUp(), { role: 'listen', echoes: true });
    const transport = new TcpTransport({ heartbeatIntervalMs: 100, peerTimeoutMs: 1000 });
    onTestFinished(() => transport.close());
    const connection = await transport.connect(await peer.url());
    await connection.send(new Uint8Array(10));
    peer.kill('SIGSTOP');
    expect((await endOf(connection)).code).toBe('ERR_VERBMQ_PEER_TIMEOUT');
  });

  it('by ABORT brings its reason, cut to 1,024 bytes between characters', async () => {
    const { peer, connection } = await rawPair();
    connection.abort('€'.repeat(1000));
    const { code, reason } = await peer.aborted();
    expect(code).toBe(AbortCode.OTHER);
    expect(reason).toBe('€'.repeat(341));
    await peer.gone;
    await connection.closed;
  });

  it('by ABORT reaches this side with the words of the peer', async () => {
    const { peer, connection } = await rawPair();
    peer.write(abortFrame(AbortCode.OTHER, 'the kettle boils'));
    const error = await endOf(connection);
    expect(error.code).toBe('ERR_VERBMQ_PEER_ABORTED');
    expect(error.message).toMatch(/the kettle boils/);
    await peer.gone;
  });

  it('by ABORT takes bounded time when the peer reads nothing', async () => {
    const { peer, connection } = await rawPair({}, { receiveWindowBytes: 2 ** 30 });
    peer.socket.pause();
    while (connection.trySend(new Uint8Array(10_000))) {}
    const begin = performance.now();
    connection.abort('no more');
    await connection.closed;
    expect(performance.now() - begin).toBeLessThan(2000);
  });

  it('in order says CLOSE behind everything, and answers that of the peer', async () => {
    const { peer, connection } = await rawPair({ highWaterMarkBytes: 4 * 1024 * 1024 });
    const long = connection.send(new Uint8Array(1_200_000));
    connection.trySend(Buffer.from('last'));
    const closed = connection.close();
    const order: number[] = [];
    for (let type = 0; type !== FrameType.CLOSE; order.push(type)) type = (await peer.frame()).type;
    expect(order).toEqual([
      FrameType.DATA_BEGIN,
      FrameType.DATA_PIECE,
      FrameType.DATA_PIECE,
      FrameType.DATA,
      FrameType.CLOSE,
    ]);
    await long;
    peer.write(data(Buffer.from('still')), smallFrame(FrameType.CLOSE));
    expect(await closed).toEqual({ graceful: true, initiator: 'local' });
    expect(connection.stats().messagesReceived).toBe(1);
  });

  it('in order takes bounded time when the peer says CLOSE and then leaves its socket open', async () => {
    const { peer, connection } = await rawPair();
    const closed = connection.close();
    await peer.frameOf(FrameType.CLOSE);
    peer.socket.allowHalfOpen = true;
    peer.write(smallFrame(FrameType.CLOSE));
    expect(await closed).toEqual({ graceful: true, initiator: 'local' });
  });

  it('is in order by TLS too, where a write may still be pending when the peer has read it', async () => {
    const setUp = tlsSetUp();
    const [serverSide, clientSide] = [setUp.createTransport(), setUp.createTransport()];
    for (let round = 0; round < 10; round++) {
      const listener = await serverSide.listen(setUp.listenAddress());
      const accepted = nextConnection(listener);
      const client = await clientSide.connect(listener.url);
      const server = await accepted;
      await fill(client, () => new Uint8Array(5000));
      const waiting = Array.from({ length: 30 }, () => client.send(new Uint8Array(5000)));
      expect(await server.close()).toEqual({ graceful: true, initiator: 'local' });
      expect(await client.closed).toEqual({ graceful: true, initiator: 'remote' });
      await Promise.all(waiting);
      await listener.close();
    }
    await Promise.all([serverSide.close(), clientSide.close()]);
  });

  it.each(['resets', 'ends'] as const)(
    'is a loss for the message that a peer which has closed %s the socket within',
    async (how) => {
      // A Unix socket takes only as much as was read from it.
      const { peer, connection } = await rawPair(
        { highWaterMarkBytes: 2 ** 28 },
        { receiveWindowBytes: 2 ** 30 },
        unixSetUp().listenAddress(),
      );
      peer.socket.removeAllListeners('data').pause();
      const sends: Promise<string>[] = [];
      const send = (): void => {
        sends.push(
          connection.send(new Uint8Array(2_900_000)).then(
            () => 'sent',
            ({ code, outcome }: VerbmqError) => `${code} ${outcome}`,
          ),
        );
      };
      await untilStuck(connection, send);
      const closed = connection.close(); // the CLOSE leaves in one write with the end of the last message
      peer.write(smallFrame(FrameType.CLOSE));
      await until(() => {
        peer.socket.read();
        return connection.stats().bytesBuffered < 900_000;
      });
      expect(connection.stats().bytesBuffered).toBeGreaterThan(0);
      if (how === 'ends') {
        peer.socket.end();
        await turns();
      }
      peer.socket.destroy(); // with bytes unread: this side is told of a reset
      expect(await closed).toMatchObject({ graceful: false, error: { code: 'ERR_VERBMQ_CONNECTION_LOST' } });
      expect((await Promise.all(sends)).pop()).toBe('ERR_VERBMQ_CONNECTION_LOST unknown');
    },
  );

  it('without CLOSE is a loss', async () => {
    const { peer, connection } = await rawPair();
    peer.socket.end();
    const error = await endOf(connection);
    expect(error.code).toBe('ERR_VERBMQ_CONNECTION_LOST');
    expect(error.message).toMatch(/without closing it/);
    await peer.gone;
  });

  it('by a listener that closes within handshakes refuses them in words', async () => {
    const { listener, transport } = await host();
    const peer = await RawPeer.connect(listener);
    await transport.connect(listener.url); // sockets are accepted in order: that of the peer was before
    await listener.close();
    await expect(peer.opening()).rejects.toBeInstanceOf(VerbmqError);
    await peer.gone;
  });
});
