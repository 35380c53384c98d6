import { type Connection, VerbmqError } from '@verbmq/core';
import { TcpTransport } from '@verbmq/tcp-fallback';
import { describe, expect, it, onTestFinished } from 'vitest';
import { fill } from '../../../test/support/messages.js';
import { nextConnection } from '../../../test/support/pair.js';
import { PeerProcess } from '../../../test/support/peer-process.js';
import { tcpSetUp, tlsSetUp, unixSetUp } from '../../../test/support/transports/tcp.js';
import { until } from '../../../test/support/until.js';
import { AbortCode, abortFrame, FrameType, smallFrame } from '../src/frame.js';
import { bufferBytes, collectGarbage, data, endOf, host, RawPeer, rawPair } from './raw-peer.js';

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

  it('by a peer that hangs while its kernel acknowledges is found by heartbeats', async () => {
    const peer = new PeerProcess(tcpSetUp(), { role: 'listen', echoes: true });
    const transport = new TcpTransport({ heartbeatIntervalMs: 50, peerTimeoutMs: 200 });
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
