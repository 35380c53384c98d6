import { describe, expect, test } from 'vitest';
import { asAuto, autoPair, autoWorld, onFast, pathIs } from '../support/auto-pair.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { abortAfterTest } from '../support/pair.js';
import { Kind, pathProof, RawAutoPeer, rawPair, rawTransport } from '../support/raw-auto-peer.js';

const GRANT = { number: 1, token: 'token', key: 'a2V5' };
const RIGHT = pathProof('server', 's', GRANT);
const WRONG = Buffer.alloc(32, 'w');

/** A client of a server that has a fast path, and proves it with these bytes in its message and in its memory. */
async function provedWith(said: Uint8Array, exposed: Uint8Array | undefined, more: Uint8Array[] = []) {
  const world = autoWorld({ client: { minFastRetryMs: 60_000, maxFastRetryMs: 60_000 } });
  const address = { host: 'here', port: 1 };
  const base = await rawTransport(world.base).listen(address);
  base.onConnection(async (connection) => {
    const peer = new RawAutoPeer(abortAfterTest(connection));
    await peer.next(Kind.HELLO);
    const limits = { maxMessageBytes: 1000, windowBytes: 1000 };
    peer.sendJson(Kind.WELCOME, { ...limits, session: 's', secret: 't', resumed: false, colour: 'blue' });
    await peer.next(Kind.FAST_REQUEST);
    const addresses = [{ ...address, colour: 'blue' }];
    peer.sendJson(Kind.FAST_GRANT, { ...GRANT, addresses, colour: 'blue' });
  });
  const fast = await rawTransport(world.fast).listen(address);
  const outcome = new Promise<string>((resolve) => {
    fast.onConnection(async (connection) => {
      const peer = new RawAutoPeer(abortAfterTest(connection));
      const proof = pathProof('client', 's', GRANT).toString('base64url');
      expect(await peer.json(Kind.CLAIM)).toEqual({ token: GRANT.token, proof });
      let descriptor: string | undefined;
      if (exposed !== undefined) {
        const memory = await connection.expose(32, { read: true });
        memory.data.set(exposed);
        descriptor = memory.descriptor;
      }
      peer.sendJson(Kind.PROOF, { bytes: Buffer.from(said).toString('base64url'), descriptor });
      for (const frame of more) peer.sendBytes(frame);
      peer.next(Kind.PROVED).then(
        () => resolve('taken'),
        () => resolve('refused'),
      );
    });
  });
  const client = asAuto(abortAfterTest(await world.clientTransport.connect(base.address)));
  return { client, outcome };
}

test('a server that proves its path has it taken, whatever else it says in fields that nobody knows', async () => {
  const { outcome } = await provedWith(RIGHT, RIGHT);
  expect(await outcome).toBe('taken');
});

test.each([
  ['a message with other bytes', WRONG, RIGHT, 'did not come through'],
  ['a message with what the client has said', pathProof('client', 's', GRANT), RIGHT, 'did not come through'],
  ['a message of another session', pathProof('server', 'other', GRANT), RIGHT, 'did not come through'],
  [
    'a message of another path',
    pathProof('server', 's', { ...GRANT, number: 2 }),
    RIGHT,
    'did not come through',
  ],
  [
    'a message without the key',
    pathProof('server', 's', { ...GRANT, key: '' }),
    RIGHT,
    'did not come through',
  ],
  ['a message with fewer bytes', RIGHT.subarray(1), RIGHT, 'did not come through'],
  ['memory with other bytes', RIGHT, WRONG, 'other bytes than lie there'],
  ['no memory, where the transport has it', RIGHT, undefined, 'exposes no memory'],
])('a path with %s is not taken', async (_, said, exposed, why) => {
  const { client, outcome } = await provedWith(said, exposed);
  expect(await outcome).toBe('refused');
  const path = await pathIs(client, ({ reason }) => reason === 'probe-failed');
  expect(path).toMatchObject({ fast: false, flowing: true, explanation: expect.stringContaining(why) });
});

test('a server that says more in a proof than it was asked for is cut off, and none of it is kept', async () => {
  const flood = new Array<Uint8Array>(1000).fill(RIGHT);
  const { client, outcome } = await provedWith(RIGHT, RIGHT, flood);
  expect(await outcome).toBe('refused');
  const path = await pathIs(client, ({ reason }) => reason === 'probe-failed');
  expect(path.explanation).toContain('before it was due');
});

describe('a path without one-sided memory', () => {
  test.each(['client', 'both'] as const)(
    'on the side of the client is proved by messages: %s',
    async (withoutMemory) => {
      const { client } = await autoPair({ withoutMemory });
      await onFast(client);
      // The memory of the connection above is emulated, and needs none below.
      expect(client.capabilities.oneSided).toBe('emulated');
    },
  );

  test('on that of the server alone is not taken', async () => {
    const { client } = await autoPair({ withoutMemory: 'server' });
    const path = await pathIs(client, ({ reason }) => reason === 'probe-failed');
    expect(path.explanation).toContain('exposes no memory');
  });
});

describe('a path that a client has given up', () => {
  /** The server of such a client, and a path of it on which all but PROVED was said. */
  async function almostProved() {
    const { raw, server, fast } = await rawPair();
    const attack = rawTransport(fast);
    const prove = async (number: number): Promise<RawAutoPeer> => {
      const { port, claim } = await raw.ask(number);
      const path = await RawAutoPeer.connect(attack, { host: 'here', port });
      path.sendJson(Kind.CLAIM, claim);
      await path.next(Kind.PROOF);
      return path;
    };
    return { raw, server, first: await prove(1), prove };
  }

  test('for another one does not take its place when its proof is completed late', async () => {
    const { raw, server, first, prove } = await almostProved();
    const second = await prove(2);
    second.sendJson(Kind.PROVED, {});
    await second.next(Kind.READY);
    raw.send(Kind.SWITCH, new Uint8Array(new Uint32Array([2]).buffer), { sequence: 1 });
    await onFast(server);
    first.sendJson(Kind.PROVED, {});
    const taken = first.next(Kind.READY).then(
      () => true,
      () => false,
    );
    expect(await taken).toBe(false);
    second.send(Kind.DATA, numbered(7), { messages: 1, sequence: 1 });
    expect(numberOf((await take(server, 1))[0]!)).toBe(7);
    expect(server.path).toMatchObject({ fast: true, flowing: true });
  });

  test('and says so is not kept at the server until its time is over', async () => {
    const { raw, server, first } = await almostProved();
    raw.sendJson(Kind.FAST_FAILED, { number: 1, reason: 'probe-failed' });
    const { error } = await first.connection.closed;
    expect(error?.message).toContain('the attempt that it belongs to is over');
    expect(server.path).toMatchObject({ fast: false, flowing: true, reason: 'peer-declined' });
  });
});
