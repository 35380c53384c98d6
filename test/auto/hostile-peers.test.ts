import type { Connection } from '@verbmq/core';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { attackerSession, expectRefused, expectUnharmed, scene } from '../support/attacked-session.js';
import { failure } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { Kind, RawAutoPeer, rawTransport } from '../support/raw-auto-peer.js';

describe('before a session', () => {
  test('hellos that are never said are bounded in number and in time', async () => {
    const { listener, attack, ...honest } = await scene({ maxHandshakes: 20, handshakeTimeoutMs: 200 });
    const flood = await Promise.all(
      Array.from({ length: 50 }, () => RawAutoPeer.connect(attack, listener.address)),
    );
    const refused = flood.slice(20);
    for (const raw of refused) expect(await raw.json(Kind.REFUSE)).toMatchObject({ reason: 'overloaded' });
    await expectUnharmed(honest);
    for (const raw of flood) await raw.connection.closed;
    expect(listener.stats()).toEqual({ accepted: 1, failed: 50 });
    const late = await RawAutoPeer.connect(attack, listener.address);
    await attackerSession(listener, late);
  });

  test.each([
    ['another version', Kind.HELLO, { version: 2, maxMessageBytes: 1 }, 'version'],
    ['no limits', Kind.HELLO, { version: 1 }, 'protocol'],
    ['limits out of range', Kind.HELLO, { version: 1, maxMessageBytes: 0, windowBytes: -1 }, 'protocol'],
    ['another frame first', Kind.DATA, {}, 'protocol'],
    ['a list', Kind.HELLO, [1, 2], 'protocol'],
    [
      'a long text',
      Kind.HELLO,
      { version: 1, maxMessageBytes: 1, windowBytes: 1, nonce: 'x'.repeat(2000) },
      'protocol',
    ],
  ])('%s is refused in words', async (_, kind, fields, reason) => {
    const { listener, attack, ...honest } = await scene();
    const raw = await RawAutoPeer.connect(attack, listener.address);
    raw.sendJson(kind, fields);
    expect(await raw.json(Kind.REFUSE)).toMatchObject({
      version: 1,
      reason,
      message: expect.stringMatching(/./),
    });
    await raw.connection.closed;
    await expectUnharmed(honest);
  });

  test('bytes that are no hello are refused', async () => {
    const { listener, attack, ...honest } = await scene();
    for (const bytes of ['', 'GET / HTTP/1.1', `0${'{'.repeat(16_000)}`]) {
      const raw = await RawAutoPeer.connect(attack, listener.address);
      raw.sendBytes(Buffer.from(bytes));
      await raw.json(Kind.REFUSE);
    }
    await expectUnharmed(honest);
  });

  test('fields that nobody knows are passed over', async () => {
    const { listener, attack } = await scene();
    const raw = await RawAutoPeer.connect(attack, listener.address);
    const session = await attackerSession(listener, raw, { colour: 'blue', limits: { more: [1] } });
    raw.send(Kind.DATA, numbered(7), { messages: 1, sequence: 1 });
    expect(numberOf((await take(session, 1))[0]!)).toBe(7);
  });

  test('a server of another version is told apart by the client', async () => {
    const { base, clientTransport } = await scene();
    const listener = await rawTransport(base).listen({ host: 'future', port: 1 });
    listener.onConnection((connection) => {
      const raw = new RawAutoPeer(abortAfterTest(connection));
      raw.sendJson(Kind.REFUSE, { version: 2, reason: 'version', message: 'this side speaks 2' });
    });
    await failure(clientTransport.connect({ host: 'future', port: 1 }), 'ERR_VERBMQ_VERSION');
  });
});

describe('session names', () => {
  test('that are made up, or come with a wrong secret, are refused', async () => {
    const { listener, attack, ...honest } = await scene();
    const own = await RawAutoPeer.connect(attack, listener.address);
    const { session } = await own.open();
    for (const resume of [
      { session: 'AAAAAAAAAAAAAAAAAAAAAA', secret: 'AAAAAAAAAAAAAAAAAAAAAA', epoch: 0 },
      { session, secret: 'AAAAAAAAAAAAAAAAAAAAAA', epoch: 0 },
      { session, secret: '', epoch: 0 },
    ]) {
      const raw = await RawAutoPeer.connect(attack, listener.address);
      await expectRefused(raw, resume, 'session-unknown');
    }
    await expectUnharmed(honest);
  });

  test('of a session that has ended are not known any more', async () => {
    const { listener, attack } = await scene();
    const raw = await RawAutoPeer.connect(attack, listener.address);
    const accepted = nextConnection(listener);
    const { session, secret } = await raw.open();
    const server = abortAfterTest(await accepted);
    server.abort();
    await server.closed;
    const again = await RawAutoPeer.connect(attack, listener.address);
    await expectRefused(again, { session, secret, epoch: 0 }, 'session-unknown');
  });
});

describe('resuming', () => {
  test('from an epoch that cannot be is refused in words, and the session goes on where it was', async () => {
    const { listener, attack, ...honest } = await scene();
    const raw = await RawAutoPeer.connect(attack, listener.address);
    const accepted = nextConnection(listener);
    const { session, secret } = await raw.open();
    const server = abortAfterTest(await accepted);
    const again = await RawAutoPeer.connect(attack, listener.address);
    await expectRefused(again, { session, secret, epoch: 2 ** 32 - 1 });
    raw.send(Kind.DATA, numbered(7), { messages: 1, sequence: 1 });
    expect(numberOf((await take(server, 1))[0]!)).toBe(7);
    await expectUnharmed(honest);
  });

  test('a session that waits for the fast path, which is required, gives it no more time', async () => {
    const { listener, attack, ...honest } = await scene({
      policy: 'require-rdma',
      handshakeTimeoutMs: 200,
    });
    const raw = await RawAutoPeer.connect(attack, listener.address);
    const { session, secret } = await raw.open();
    const again = await RawAutoPeer.connect(attack, listener.address);
    expect(await again.open({ resume: { session, secret, epoch: 0 } })).toMatchObject({ resumed: true });
    const { error } = await again.connection.closed;
    expect(error?.message).toContain('auto-end');
    expect(listener.stats()).toEqual({ accepted: 1, failed: 1 });
    await expectUnharmed(honest);
  });
});

describe('tokens of fast paths', () => {
  test('are worth one connection: made-up ones, used ones and old ones are refused', async () => {
    const { listener, attack, attackFast, fast, ...honest } = await scene();
    const raw = await RawAutoPeer.connect(attack, listener.address);
    await raw.open();
    const old = await raw.ask(1);
    const fresh = await raw.ask(2);
    const show = async (claim: object): Promise<RawAutoPeer> => {
      const path = await RawAutoPeer.connect(attackFast, { host: 'here', port: fresh.port });
      path.sendJson(Kind.CLAIM, claim);
      return path;
    };
    const { token, proof } = fresh.claim;
    const madeUp = { token: 'AAAAAAAAAAAAAAAAAAAAAA', proof };
    for (const claim of [madeUp, old.claim, { token: 7, proof }, { proof }])
      await (await show(claim)).connection.closed;
    // Who has heard the token, and the proof of another one, has nothing, and spends nothing.
    for (const other of ['', old.claim.proof, `${proof}A`, token, 7, undefined])
      await (await show({ token, proof: other })).connection.closed;
    const granted = await show(fresh.claim);
    const ofServer = await granted.json(Kind.PROOF);
    expect(ofServer.bytes).not.toBe(proof);
    const replayed = await show(fresh.claim);
    await replayed.connection.closed;
    expect(granted.connection.state).toBe('open');
    await expectUnharmed(honest);
  });

  test('are worth nothing when their time is over, or their session', async () => {
    const { listener, attack, attackFast, ...honest } = await scene({ handshakeTimeoutMs: 5000 });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const granted = async (): Promise<{ session: Connection; claim: () => Promise<RawAutoPeer> }> => {
      const raw = await RawAutoPeer.connect(attack, listener.address);
      const session = await attackerSession(listener, raw);
      const { port, claim: shown } = await raw.ask(1);
      const claim = async (): Promise<RawAutoPeer> => {
        const path = await RawAutoPeer.connect(attackFast, { host: 'here', port });
        path.sendJson(Kind.CLAIM, shown);
        return path;
      };
      return { session, claim };
    };
    const expectWorthless = async (path: RawAutoPeer): Promise<void> => {
      const { error } = await path.connection.closed;
      expect(error?.message).toContain('its token is not known');
    };
    const [old, inTime, ofNobody] = [await granted(), await granted(), await granted()];
    ofNobody.session.abort();
    await ofNobody.session.closed;
    await expectWorthless(await ofNobody.claim());
    await vi.advanceTimersByTimeAsync(4999);
    await (await inTime.claim()).json(Kind.PROOF);
    await vi.advanceTimersByTimeAsync(1);
    await expectWorthless(await old.claim());
    expect(old.session.state).toBe('open'); // it may ask for another one
    await expectUnharmed(honest);
  });

  test('that are never shown are bounded in number and in time', async () => {
    const { listener, attack, attackFast, ...honest } = await scene({
      maxHandshakes: 20,
      handshakeTimeoutMs: 200,
    });
    const raw = await RawAutoPeer.connect(attack, listener.address);
    await raw.open();
    const { port } = await raw.ask(1);
    const flood = await Promise.all(
      Array.from({ length: 50 }, () => RawAutoPeer.connect(attackFast, { host: 'here', port })),
    );
    const words = (await Promise.all(flood.map(({ connection }) => connection.closed))).map(
      ({ error }) => error?.message,
    );
    const tooMany = expect.stringContaining('too many paths are being proved');
    expect(words.slice(20)).toEqual(new Array(30).fill(tooMany));
    expect(words.slice(0, 20)).toEqual(new Array(20).fill(expect.stringContaining('within 200 ms')));
    await expectUnharmed(honest);
    // There is room again.
    const { claim } = await raw.ask(2);
    const path = await RawAutoPeer.connect(attackFast, { host: 'here', port });
    path.sendJson(Kind.CLAIM, claim);
    await path.json(Kind.PROOF);
  });

  test('are proved 256 at a time, however many handshakes there may be', async () => {
    const { listener, attack, attackFast, ...honest } = await scene({ maxHandshakes: 10_000 });
    const raw = await RawAutoPeer.connect(attack, listener.address);
    await raw.open();
    const { port, claim } = await raw.ask(1);
    const connect = (): Promise<RawAutoPeer> => RawAutoPeer.connect(attackFast, { host: 'here', port });
    const flood: RawAutoPeer[] = [];
    for (let n = 0; n < 256; n++) flood.push(await connect());
    const { error } = await (await connect()).connection.closed;
    expect(error?.message).toContain('too many paths are being proved');
    expect(flood.filter(({ connection }) => connection.state === 'open').length).toBe(256);
    flood[0]?.sendJson(Kind.CLAIM, claim);
    await flood[0]?.next(Kind.PROOF);
    flood[1]?.connection.abort();
    await flood[1]?.connection.closed;
    const next = await connect();
    next.sendJson(Kind.CLAIM, (await raw.ask(2)).claim);
    await next.next(Kind.PROOF);
    await expectUnharmed(honest);
  });

  test('give nothing to who does not prove the path', async () => {
    const { listener, attack, attackFast, ...honest } = await scene({ handshakeTimeoutMs: 100 });
    const raw = await RawAutoPeer.connect(attack, listener.address);
    await raw.open();
    const { port, claim } = await raw.ask(1);
    const path = await RawAutoPeer.connect(attackFast, { host: 'here', port });
    path.sendJson(Kind.CLAIM, claim);
    await path.json(Kind.PROOF);
    await path.connection.closed; // it says no more, for too long
    const silent = await RawAutoPeer.connect(attackFast, { host: 'here', port });
    await silent.connection.closed;
    await expectUnharmed(honest);
  });
});
