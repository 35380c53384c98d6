// What a peer that has not shown who it is can make a listener hold: nothing long, and nothing for long.
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { Connection, Listener } from '@verbmq/core';
import { type AutoOptions, AutoTransport } from '@verbmq/core/auto';
import { TcpTransport } from '@verbmq/tcp-fallback';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { FrameType, smallFrame } from '../../packages/tcp-fallback/src/frame.js';
import { encodeHello } from '../../packages/tcp-fallback/src/hello.js';
import { HELLO, RawPeer, uint32 } from '../../packages/tcp-fallback/test/raw-peer.js';
import { heard, jsonFrame, messageFrame, say, sayHello, stranger } from '../support/auto-stranger.js';
import { failure } from '../support/expectations.js';
import { pattern, sameBytes, take } from '../support/messages.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { Kind } from '../support/raw-auto-peer.js';

const MIB = 1024 * 1024;

function transport(options: AutoOptions = {}): AutoTransport {
  const made = new AutoTransport({ ...options, policy: 'tcp', base: new TcpTransport() });
  onTestFinished(() => made.close());
  return made;
}

describe('a stranger', () => {
  const LONG: Record<string, Buffer> = {
    'a message in pieces': smallFrame(FrameType.DATA_BEGIN, uint32(60 * MIB)),
    'a message in one frame': Buffer.concat([uint32(16_385), uint32(FrameType.DATA), Buffer.alloc(100)]),
    'a one-sided write': Buffer.concat([uint32(MIB), uint32(FrameType.WRITE), Buffer.alloc(100)]),
  };
  const options = { preSharedKey: new Uint8Array(16), closeTimeoutMs: 600_000 };

  test.each(Object.entries(LONG))('that begins %s is cut off at its first bytes', async (_, bytes) => {
    const listener = await transport(options).listen('tcp://127.0.0.1:0');
    const silent = await stranger(listener);
    silent.write(bytes);
    expect((await silent.aborted()).reason).toContain('accepted');
    const challenged = await stranger(listener);
    sayHello(challenged);
    expect(await heard(challenged)).toMatchObject({ kind: Kind.CHALLENGE });
    challenged.write(bytes);
    expect((await challenged.aborted()).reason).toContain('accepted');
    const refused = await stranger(listener);
    say(refused, Kind.DATA, {});
    expect(await heard(refused)).toMatchObject({ kind: Kind.REFUSE });
    refused.write(bytes);
    expect((await refused.aborted()).reason).toContain('accepted');
  });

  test('that was refused is counted until it is gone, which is soon', async () => {
    const listener = await transport({ maxHandshakes: 1, closeTimeoutMs: 600_000 }).listen(
      'tcp://127.0.0.1:0',
    );
    const [first, second] = [await stranger(listener), await stranger(listener)];
    say(first, Kind.DATA, {});
    expect(await heard(first)).toMatchObject({ kind: Kind.REFUSE, fields: { reason: 'protocol' } });
    expect(await heard(second)).toMatchObject({ kind: Kind.REFUSE, fields: { reason: 'overloaded' } });
    const third = await stranger(listener);
    expect(await heard(third)).toMatchObject({ kind: Kind.REFUSE, fields: { reason: 'overloaded' } });
    await Promise.all([first.gone, second.gone, third.gone]); // though none of them closes
    const fourth = await stranger(listener);
    sayHello(fourth);
    expect(await heard(fourth)).toMatchObject({ kind: Kind.WELCOME });
  });

  test.each(['transport', 'listener'] as const)(
    'that says nothing at all counts for the base transport, with the bound of the %s',
    async (whose) => {
      const bound = { maxHandshakes: 2 };
      const made = transport(whose === 'transport' ? bound : {});
      const listener = await made.listen('tcp://127.0.0.1:0', whose === 'listener' ? bound : {});
      for (let n = 0; n < 2; n++) await RawPeer.connect(listener);
      await expect(stranger(listener)).rejects.toMatchObject({ code: 'ERR_VERBMQ_OVERLOADED' });
    },
  );

  test('that comes while 128 are being refused is cut off without an answer', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const listener = await transport({ maxHandshakes: 1 }).listen('tcp://127.0.0.1:0');
    await stranger(listener);
    const refused: RawPeer[] = [];
    for (let n = 0; n < 128; n++) {
      const peer = await stranger(listener);
      expect(await heard(peer)).toMatchObject({ kind: Kind.REFUSE, fields: { reason: 'overloaded' } });
      refused.push(peer);
    }
    const last = await stranger(listener);
    expect((await last.frame()).type).toBe(FrameType.ABORT);
    await last.gone;
    expect(listener.stats()).toEqual({ accepted: 0, failed: 129 });
    await vi.advanceTimersByTimeAsync(1000); // so long they may take to close
    for (const peer of refused) await peer.aborted();
    await vi.advanceTimersByTimeAsync(1000); // and so long to end their sockets
    await Promise.all(refused.map(({ gone }) => gone));
    expect(await heard(await stranger(listener))).toMatchObject({ kind: Kind.REFUSE });
  });
});

describe('a base connection that does not carry what is said on it', () => {
  const short = (maxMessageBytes: number): Buffer => encodeHello({ ...HELLO, maxMessageBytes });

  test.each([1000, 16_383])('but %i bytes is refused', async (bytes) => {
    const listener = await transport().listen('tcp://127.0.0.1:0');
    const peer = await RawPeer.connect(listener);
    peer.write(short(bytes));
    await peer.opening();
    sayHello(peer);
    expect(await heard(peer)).toMatchObject({ kind: Kind.REFUSE, fields: { reason: 'protocol' } });
    await peer.gone;
    expect(listener.stats()).toEqual({ accepted: 0, failed: 1 });
  });

  test('is not taken by a client either', async () => {
    const server = createServer(async (socket) => {
      const peer = new RawPeer(socket);
      await peer.opening();
      peer.write(short(1000));
      await heard(peer);
      const names = { session: 's', secret: 's', resumed: false };
      peer.write(jsonFrame(Kind.WELCOME, { maxMessageBytes: MIB, windowBytes: MIB, ...names }));
    });
    onTestFinished(() => void server.close());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as { port: number };
    const error = await failure(transport().connect(`tcp://127.0.0.1:${port}`), 'ERR_VERBMQ_PROTOCOL');
    expect(error.message).toContain('carries 1000 bytes');
  });

  test('as the session needs does not resume it', async () => {
    const listener = await transport().listen('tcp://127.0.0.1:0');
    const accepted = nextConnection(listener);
    const first = await stranger(listener);
    sayHello(first);
    const { session, secret } = (await heard(first)).fields;
    const server = abortAfterTest(await accepted);
    const again = await RawPeer.connect(listener);
    again.write(short(20_000));
    await again.opening();
    sayHello(again, { resume: { session, secret, epoch: 0 } });
    expect(await heard(again)).toMatchObject({ kind: Kind.REFUSE, fields: { reason: 'protocol' } });
    server.trySend(pattern(100_000));
    const { payload } = await first.frameOf(FrameType.DATA_BEGIN);
    expect(payload.readUInt32LE(0)).toBe(16 + 100_000);
  });
});

test.each([undefined, new Uint8Array(16)])(
  'whoever is welcome may send long messages at once',
  async (preSharedKey) => {
    const options = preSharedKey === undefined ? {} : { preSharedKey };
    const listener = await transport(options).listen('tcp://127.0.0.1:0');
    const sent = new Promise<Connection>((resolve) => {
      listener.onConnection((connection) => {
        connection.trySend(pattern(MIB, 1)); // right behind the welcome
        resolve(abortAfterTest(connection));
      });
    });
    const client = abortAfterTest(await transport(options).connect(`tcp://127.0.0.1:${portOf(listener)}`));
    await client.send(pattern(MIB, 2));
    expect(sameBytes((await take(client, 1))[0]!, pattern(MIB, 1))).toBe(true);
    expect(sameBytes((await take(await sent, 1))[0]!, pattern(MIB, 2))).toBe(true);
  },
);

test('a long message may come together with the welcome', async () => {
  const server = createServer((socket) => void welcome(new RawPeer(socket)));
  onTestFinished(() => void server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const welcome = async (peer: RawPeer): Promise<void> => {
    await peer.opening();
    peer.write(encodeHello(HELLO));
    await heard(peer);
    const names = { session: 's', secret: 's', resumed: false };
    const limits = { maxMessageBytes: MIB, windowBytes: MIB };
    peer.write(jsonFrame(Kind.WELCOME, { ...limits, ...names }), messageFrame(1, 100_000));
  };
  const { port } = server.address() as { port: number };
  const client = abortAfterTest(await transport().connect(`tcp://127.0.0.1:${port}`));
  expect((await take(client, 1))[0]!.byteLength).toBe(100_000);
});

function portOf({ address }: Listener): number {
  return (address as { port: number }).port;
}
