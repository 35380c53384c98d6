import { createHmac } from 'node:crypto';
import type { AutoOptions } from '@verbmq/core/auto';
import { describe, expect, test } from 'vitest';
import { autoPair, autoWorld, onBase, onFast, pathIs } from '../support/auto-pair.js';
import { failure } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { abortAfterTest } from '../support/pair.js';
import { Kind, RawAutoPeer, rawTransport } from '../support/raw-auto-peer.js';

const key = (letter: string): AutoOptions => ({ preSharedKey: Buffer.alloc(32, letter) });

async function refused(client: AutoOptions, server: AutoOptions): Promise<string> {
  const world = autoWorld({ client, server });
  const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
  listener.onConnection((connection) => void abortAfterTest(connection));
  const error = await failure(world.clientTransport.connect(listener.url), 'ERR_VERBMQ_REJECTED');
  expect(error.reason).toBe('authentication');
  // A server without a key has let the client in before that could refuse it.
  expect(listener.stats().accepted).toBe(server.preSharedKey === undefined ? 1 : 0);
  return error.message;
}

describe('a pre-shared key', () => {
  test('lets two sides that have it connect, move and resume', async () => {
    const pair = await autoPair({ both: key('a') });
    await onFast(pair.client);
    pair.fast.cut();
    pair.base.breakOnce();
    await pair.client.send(numbered(1));
    await pathIs(pair.client, ({ flowing }) => !flowing);
    await onBase(pair.client);
    expect(numberOf((await take(pair.server, 1))[0]!)).toBe(1);
  });

  test('keeps out who has another one, in both directions', async () => {
    expect(await refused(key('a'), key('b'))).toContain('key is another one');
  });

  test('keeps out who has none', async () => {
    expect(await refused({}, key('a'))).toContain('set preSharedKey');
  });

  test('is asked for by a client that has one: a server without is not trusted', async () => {
    expect(await refused(key('a'), {})).toContain('does not ask for the pre-shared key');
  });

  test('must be long enough', () => {
    expect(() => autoWorld({ client: { preSharedKey: new Uint8Array(15) } })).toThrow(RangeError);
  });

  test('a server that only pretends to have it is refused', async () => {
    const { base, clientTransport } = autoWorld({ client: key('a') });
    const listener = await rawTransport(base).listen({ host: 'here', port: 1 });
    listener.onConnection(async (connection) => {
      const raw = new RawAutoPeer(abortAfterTest(connection));
      await raw.next(Kind.HELLO);
      raw.sendJson(Kind.CHALLENGE, { nonce: 'AAAA' });
      const { proof } = await raw.json(Kind.AUTHENTICATE);
      raw.sendJson(Kind.WELCOME, {
        maxMessageBytes: 1,
        windowBytes: 1,
        session: 'a',
        secret: 'b',
        resumed: false,
      });
      raw.sendJson(Kind.AUTHENTICATE, { proof }); // what the client said itself is no proof
    });
    const error = await failure(clientTransport.connect(listener.address), 'ERR_VERBMQ_REJECTED');
    expect(error.reason).toBe('authentication');
  });

  test('is needed to resume too', async () => {
    const world = autoWorld({ server: key('a') });
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
    const raw = await RawAutoPeer.connect(rawTransport(world.base), listener.address);
    const resume = { session: 'a', secret: 'b', epoch: 0 };
    raw.sendJson(Kind.HELLO, { version: 1, maxMessageBytes: 1, windowBytes: 1, nonce: '', resume });
    await raw.next(Kind.CHALLENGE);
    raw.sendJson(Kind.AUTHENTICATE, { proof: 'AAAA' });
    expect(await raw.json(Kind.REFUSE)).toMatchObject({ reason: 'authentication' });
  });

  describe('whose proof was heard in one conversation', () => {
    const KEY = Buffer.alloc(32, 'a');
    const frame = (kind: number, payload: Uint8Array): Buffer =>
      Buffer.concat([Buffer.from([kind]), Buffer.alloc(15), payload]);
    const jsonFrame = (kind: number, fields: object): Buffer =>
      frame(kind, Buffer.from(JSON.stringify(fields)));

    /** As docs/protocol-auto.md has it. */
    function proves(speaker: 'client' | 'server', ...said: Uint8Array[]): Buffer {
      const hmac = createHmac('sha256', KEY).update(`verbmq-auto-1 ${speaker}`);
      for (const each of said) {
        const length = Buffer.alloc(4);
        length.writeUInt32LE(each.byteLength);
        hmac.update(length).update(each);
      }
      return jsonFrame(Kind.AUTHENTICATE, { proof: hmac.digest('base64url') });
    }

    test('does not let a client into another one', async () => {
      const world = autoWorld({ server: key('a') });
      const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
      listener.onConnection((connection) => void abortAfterTest(connection));
      const limits = { maxMessageBytes: 1000, windowBytes: 1000 };
      const hello = jsonFrame(Kind.HELLO, { version: 1, ...limits, nonce: 'AAAA' });
      const challenged = async (): Promise<{ raw: RawAutoPeer; challenge: Buffer }> => {
        const raw = await RawAutoPeer.connect(rawTransport(world.base), listener.address);
        raw.sendBytes(hello);
        return { raw, challenge: frame(Kind.CHALLENGE, await raw.next(Kind.CHALLENGE)) };
      };
      const { raw, challenge } = await challenged();
      const proof = proves('client', hello, challenge);
      raw.sendBytes(proof);
      await raw.next(Kind.WELCOME);
      const again = await challenged();
      again.raw.sendBytes(proof);
      expect(await again.raw.json(Kind.REFUSE)).toMatchObject({ reason: 'authentication' });
      expect(listener.stats()).toEqual({ accepted: 1, failed: 1 });
    });

    test('does not make a server believed in another one', async () => {
      const { base, clientTransport } = autoWorld({ client: { ...key('a'), policy: 'tcp' } });
      const listener = await rawTransport(base).listen({ host: 'here', port: 1 });
      const names = { session: 'a', secret: 'b', resumed: false };
      const challenge = jsonFrame(Kind.CHALLENGE, { nonce: 'AAAA' });
      const welcome = jsonFrame(Kind.WELCOME, { maxMessageBytes: 1000, windowBytes: 1000, ...names });
      let proof: Buffer | undefined;
      listener.onConnection(async (connection) => {
        const raw = new RawAutoPeer(abortAfterTest(connection));
        const hello = frame(Kind.HELLO, await raw.next(Kind.HELLO));
        raw.sendBytes(challenge);
        const answer = frame(Kind.AUTHENTICATE, await raw.next(Kind.AUTHENTICATE));
        raw.sendBytes(welcome);
        proof ??= proves('server', hello, challenge, answer, welcome);
        raw.sendBytes(proof);
      });
      abortAfterTest(await clientTransport.connect(listener.address));
      const error = await failure(clientTransport.connect(listener.address), 'ERR_VERBMQ_REJECTED');
      expect(error.reason).toBe('authentication');
    });
  });
});
