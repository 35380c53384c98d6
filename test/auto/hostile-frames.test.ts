import { describe, expect, test } from 'vitest';
import { attackerSession, expectUnharmed, scene } from '../support/attacked-session.js';
import { asAuto, autoWorld } from '../support/auto-pair.js';
import { failure } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { abortAfterTest } from '../support/pair.js';
import { Kind, RawAutoPeer, rawTransport } from '../support/raw-auto-peer.js';
import { until } from '../support/until.js';

describe('within a session', () => {
  const message = (sequence: number): [number, Uint8Array, object] => [
    Kind.DATA,
    numbered(sequence),
    { messages: 1, sequence },
  ];
  const lies: [what: string, lie: (raw: RawAutoPeer) => void][] = [
    [
      'an acknowledgement of what was never sent',
      (raw) => raw.send(Kind.ACK, undefined, { acknowledged: 1000 }),
    ],
    [
      'an acknowledgement half way round',
      (raw) => raw.send(Kind.ACK, undefined, { acknowledged: 2 ** 31 - 1 }),
    ],
    ['credit for what was never sent', (raw) => raw.send(Kind.ACK, undefined, { credit: 5000 })],
    ['a gap', (raw) => raw.send(...message(2))],
    [
      'a message that is too long',
      (raw) => raw.send(Kind.DATA, new Uint8Array(1001), { messages: 1, sequence: 1 }),
    ],
    ['a frame of no message', (raw) => raw.send(Kind.DATA, numbered(1), { sequence: 1 })],
    [
      'a batch that ends within a message',
      (raw) => raw.send(Kind.BATCH, Buffer.from([9, 0, 0, 0, 1]), { messages: 1, sequence: 1 }),
    ],
    [
      'a batch that ends within a length',
      (raw) => raw.send(Kind.BATCH, Buffer.from([9, 0]), { messages: 1, sequence: 1 }),
    ],
    [
      'a batch with another number',
      (raw) => raw.send(Kind.BATCH, new Uint8Array(8), { messages: 3, sequence: 1 }),
    ],
    ['an epoch far ahead', (raw) => raw.send(Kind.SWITCH, new Uint8Array(4), { sequence: 1_000_000 })],
    ['a switch of another length', (raw) => raw.send(Kind.SWITCH, new Uint8Array(3), { sequence: 1 })],
    [
      'a switch that acknowledges too much',
      (raw) => raw.send(Kind.SWITCH, new Uint8Array(4), { sequence: 1, acknowledged: 9 }),
    ],
    ['an answer to no question', (raw) => raw.send(Kind.ANSWER, new Uint8Array(8), { sequence: 1 })],
    ['an operation that is too short', (raw) => raw.send(Kind.OPERATION, new Uint8Array(8), { sequence: 1 })],
    [
      'an operation that nobody knows',
      (raw) => raw.send(Kind.OPERATION, Buffer.alloc(32, 9), { sequence: 1 }),
    ],
    ['a frame shorter than its header', (raw) => raw.sendBytes(new Uint8Array(15))],
    ['a frame of no kind', (raw) => raw.send(99)],
    ['a grant from a client', (raw) => raw.sendJson(Kind.FAST_GRANT, { number: 1 })],
    [
      'a request for a path that was asked for',
      (raw) => {
        raw.sendJson(Kind.FAST_REQUEST, { number: 5 });
        raw.sendJson(Kind.FAST_REQUEST, { number: 5 });
      },
    ],
    ['a hello', (raw) => raw.sendJson(Kind.HELLO, { version: 1 })],
  ];

  test.each(lies)('%s ends that session, with a reason, and no other', async (_, lie) => {
    const { listener, attack, ...honest } = await scene();
    const raw = await RawAutoPeer.connect(attack, listener.address);
    const session = await attackerSession(listener, raw);
    lie(raw);
    const { error } = await session.closed;
    expect(error?.code).toBe('ERR_VERBMQ_PROTOCOL');
    expect((await raw.connection.closed).error?.message).toContain('auto-end');
    await expectUnharmed(honest);
  });

  test('a peer that sends beyond the window is cut off', async () => {
    const { listener, attack, ...honest } = await scene();
    const raw = await RawAutoPeer.connect(attack, listener.address);
    const session = await attackerSession(listener, raw, { windowBytes: 1000 });
    for (let sequence = 1; sequence < 100; sequence++) raw.send(...message(sequence));
    expect((await session.closed).error?.message).toContain('beyond its window');
    await expectUnharmed(honest);
  });

  test('a peer that reads memory and acknowledges nothing is cut off', async () => {
    const { listener, attack, ...honest } = await scene();
    const raw = await RawAutoPeer.connect(attack, listener.address);
    const session = await attackerSession(listener, raw, { windowBytes: 1000 });
    const { descriptor } = await session.expose(65_536, { read: true });
    const operation = Buffer.alloc(32);
    operation[0] = 1;
    operation.writeUInt32LE(65_536, 4);
    operation.set(Buffer.from(descriptor, 'base64url').subarray(18), 16);
    let sequence = 0;
    await until(() => {
      for (let n = 0; n < 10; n++) raw.send(Kind.OPERATION, operation, { sequence: ++sequence });
      return session.state !== 'open';
    });
    expect((await session.closed).error?.message).toContain('more than it acknowledges');
    await expectUnharmed(honest);
  });

  test('a peer that reads nothing, often, and acknowledges nothing is cut off before it costs much', async () => {
    const { listener, attack, ...honest } = await scene();
    const raw = await RawAutoPeer.connect(attack, listener.address);
    const session = asAuto(await attackerSession(listener, raw, { windowBytes: 1000 }));
    const { descriptor } = await session.expose(8, { read: true });
    const operation = Buffer.alloc(32);
    operation[0] = 1;
    operation.set(Buffer.from(descriptor, 'base64url').subarray(18), 16);
    let sequence = 0;
    let kept = 0;
    await until(() => {
      for (let n = 0; n < 1000; n++) raw.send(Kind.OPERATION, operation, { sequence: ++sequence });
      kept = Math.max(kept, session.session.keptFrames);
      return session.state !== 'open';
    });
    expect((await session.closed).error?.message).toContain('more than it acknowledges');
    // Three times what a side asks for at most, each of which counts 64.
    expect(kept).toBeLessThan((3 * 1024 * 1024) / 64 + 100);
    await expectUnharmed(honest);
  });

  test('a peer that asks for paths and does not take the answers is cut off', async () => {
    const { listener, attack, ...honest } = await scene({ resumeWindowMs: 0 });
    const raw = await RawAutoPeer.connect(attack, listener.address);
    const session = await attackerSession(listener, raw);
    raw.connection.pause();
    let number = 0;
    await until(() => {
      for (let n = 0; n < 10; n++) raw.sendJson(Kind.FAST_REQUEST, { number: ++number });
      return session.state !== 'open';
    });
    await session.closed;
    await expectUnharmed(honest);
  });

  test('a server that opens another session instead of resuming is not believed', async () => {
    const world = autoWorld({ both: { policy: 'tcp' } });
    const listener = await rawTransport(world.base).listen({ host: 'here', port: 1 });
    const welcome = { maxMessageBytes: 1000, windowBytes: 1000, session: 'a', secret: 'b', resumed: false };
    const peers: RawAutoPeer[] = [];
    listener.onConnection((connection) => {
      const raw = new RawAutoPeer(abortAfterTest(connection));
      peers.push(raw);
      void raw.next(Kind.HELLO).then(() => raw.sendJson(Kind.WELCOME, welcome));
    });
    const client = abortAfterTest(await world.clientTransport.connect(listener.address));
    peers[0]?.connection.abort('gone');
    expect((await client.closed).error).toMatchObject({ reason: 'protocol' });
    expect(peers.length).toBe(2);
  });

  test('a server that resumes what is to be a new session is not believed', async () => {
    const world = autoWorld({ both: { policy: 'tcp' } });
    const listener = await rawTransport(world.base).listen({ host: 'here', port: 1 });
    const welcome = { maxMessageBytes: 1000, windowBytes: 1000, session: 'a', secret: 'b', resumed: true };
    listener.onConnection((connection) => {
      const raw = new RawAutoPeer(abortAfterTest(connection));
      void raw.next(Kind.HELLO).then(() => raw.sendJson(Kind.WELCOME, welcome));
    });
    const error = await failure(world.clientTransport.connect(listener.address), 'ERR_VERBMQ_PROTOCOL');
    expect(error.message).toContain('where a new one was asked for');
  });

  test('frames that come again are no harm', async () => {
    const { listener, attack } = await scene();
    const raw = await RawAutoPeer.connect(attack, listener.address);
    const session = await attackerSession(listener, raw);
    for (const sequence of [1, 1, 2, 1, 2, 3]) raw.send(...message(sequence));
    expect((await take(session, 3)).map(numberOf)).toEqual([1, 2, 3]);
    expect(session.state).toBe('open');
    expect(session.stats().messagesReceived).toBe(3);
  });
});
