import { describe, expect, test } from 'vitest';
import { numbered, numberOf, take } from '../support/messages.js';
import { Kind, RawAutoPeer, type RawHeader, rawPair, rawTransport } from '../support/raw-auto-peer.js';

const NOTHING = new Uint8Array(0);
/** A BATCH of one message of three bytes. */
const BATCH = Buffer.from([3, 0, 0, 0, 7, 8, 9]);
/** An OPERATION that reads nothing of memory that nobody has. */
const OPERATION = Buffer.alloc(32, 0).fill(1, 0, 1);

/** A server with one session, whose client says what the tests want. */
async function scene() {
  const { raw, server: session, listener, base, fast } = await rawPair();
  const broken = async (): Promise<string | undefined> => {
    const { error } = await session.closed;
    expect(error?.code).toBe('ERR_VERBMQ_PROTOCOL');
    return error?.message;
  };
  /** Brings it as far as a fast path that is proved. */
  const onFastPath = async (): Promise<RawAutoPeer> => {
    const { port, claim } = await raw.ask(1);
    const path = await RawAutoPeer.connect(rawTransport(fast), { host: 'here', port });
    path.sendJson(Kind.CLAIM, claim);
    await path.next(Kind.PROOF);
    path.sendJson(Kind.PROVED, {});
    await path.next(Kind.READY);
    return path;
  };
  return { listener, raw, session, broken, onFastPath, again: () => rawTransport(base) };
}

const json = (value: object): Uint8Array => Buffer.from(JSON.stringify(value));

/** Each kind that a server may be sent, as it should be. */
const frames: Record<string, [kind: number, payload: Uint8Array, header: RawHeader]> = {
  DATA: [Kind.DATA, numbered(1), { messages: 1, sequence: 1 }],
  BATCH: [Kind.BATCH, BATCH, { messages: 1, sequence: 1 }],
  CLOSE: [Kind.CLOSE, NOTHING, { sequence: 1 }],
  OPERATION: [Kind.OPERATION, OPERATION, { sequence: 1 }],
  ACK: [Kind.ACK, NOTHING, {}],
  SWITCH: [Kind.SWITCH, new Uint8Array(4), { sequence: 1 }],
  FAST_REQUEST: [Kind.FAST_REQUEST, json({ number: 1 }), {}],
  FAST_FAILED: [Kind.FAST_FAILED, json({ number: 0, reason: 'busy' }), {}],
};

describe('a header', () => {
  test.each(Object.entries(frames))(
    'of %s whose second byte is not 0',
    async (_, [kind, payload, header]) => {
      const { raw, broken } = await scene();
      raw.send(kind, payload, { ...header, second: 1 });
      await broken();
    },
  );

  test.each(['CLOSE', 'OPERATION', 'ACK', 'SWITCH', 'FAST_REQUEST', 'FAST_FAILED'])(
    'of %s that says that it has messages',
    async (name) => {
      const { raw, broken } = await scene();
      const [kind, payload, header] = frames[name]!;
      raw.send(kind, payload, { ...header, messages: 1 });
      await broken();
    },
  );

  test('of an ACK that has a number', async () => {
    const { raw, broken } = await scene();
    raw.send(Kind.ACK, NOTHING, { sequence: 1 });
    expect(await broken()).toContain('number');
  });

  test.each([{ sequence: 1 }, { acknowledged: 1 }, { credit: 1 << 24 }])(
    'of a frame with JSON that says %o',
    async (header) => {
      const { raw, broken } = await scene();
      const [kind, payload] = frames.FAST_FAILED!;
      raw.send(kind, payload, header);
      expect(await broken()).toContain('header');
    },
  );

  test('of a HELLO that says more than its kind', async () => {
    const { listener, again } = await scene();
    const raw = await RawAutoPeer.connect(again(), listener.address);
    const hello = { version: 1, maxMessageBytes: 1, windowBytes: 1, nonce: '' };
    raw.send(Kind.HELLO, json(hello), { sequence: 1 });
    expect(await raw.json(Kind.REFUSE)).toMatchObject({ reason: 'protocol' });
  });
});

describe('a payload', () => {
  test.each(['CLOSE', 'ACK'])('of %s, which has none', async (name) => {
    const { raw, broken } = await scene();
    const [kind, , header] = frames[name]!;
    raw.send(kind, numbered(1), header);
    expect(await broken()).toContain('payload');
  });

  test.each([0, 1])('of a BATCH that is empty, and says that it has %i messages', async (messages) => {
    const { raw, broken } = await scene();
    raw.send(Kind.BATCH, NOTHING, { messages, sequence: 1 });
    await broken();
  });

  test('of a BATCH that is longer than the longest', async () => {
    const { raw, session, broken } = await scene();
    // The longest message has 1,000 bytes here, so a batch has 1,016 at most: three messages of 329 are one byte less.
    const batch = (bytes: number): Uint8Array => {
      const one = Buffer.alloc(4 + bytes);
      one.writeUInt32LE(bytes);
      return Buffer.concat([one, one, one]);
    };
    raw.send(Kind.BATCH, batch(329), { messages: 3, sequence: 1 });
    expect((await take(session, 3)).length).toBe(3);
    raw.send(Kind.BATCH, batch(330), { messages: 3, sequence: 2 });
    expect(await broken()).toContain('too long');
  });

  test.each([1, 2, 3])('of an OPERATION whose byte %i is not 0', async (at) => {
    const { raw, session, broken } = await scene();
    const { descriptor } = await session.expose(8, { read: true });
    const read = Buffer.from(OPERATION);
    read.set(Buffer.from(descriptor, 'base64url').subarray(18), 16);
    raw.send(Kind.OPERATION, read, { sequence: 1 });
    await raw.next(Kind.ANSWER); // so it is right but for the byte
    read[at] = 1;
    raw.send(Kind.OPERATION, read, { sequence: 2 });
    expect(await broken()).toContain('there is no operation');
  });
});

describe('behind its CLOSE a peer', () => {
  test.each(['DATA', 'BATCH', 'OPERATION', 'CLOSE'])('says no %s', async (name) => {
    const { raw, broken } = await scene();
    raw.send(Kind.CLOSE, NOTHING, { sequence: 1 });
    const [kind, payload, header] = frames[name]!;
    raw.send(kind, payload, { ...header, sequence: 2 });
    expect(await broken()).toContain('after its CLOSE');
  });

  test('answers what it was asked', async () => {
    const { raw, session } = await scene();
    const { descriptor } = await session.expose(8, { read: true }); // of the form that the peer's would have
    const reading = session.attach(descriptor).read(0, 8);
    await raw.next(Kind.OPERATION);
    raw.send(Kind.CLOSE, NOTHING, { sequence: 1 });
    raw.send(Kind.ANSWER, numbered(7, 8), { sequence: 2 });
    expect(numberOf(await reading)).toBe(7);
    expect(session.state).toBe('closing');
  });
});

describe('on a fast path', () => {
  test('data and acknowledgements are taken', async () => {
    const { session, onFastPath } = await scene();
    const path = await onFastPath();
    path.send(...frames.DATA!);
    expect(numberOf((await take(session, 1))[0]!)).toBe(1);
    path.send(...frames.ACK!);
    path.send(Kind.DATA, numbered(2), { messages: 1, sequence: 2 });
    expect(numberOf((await take(session, 1))[0]!)).toBe(2);
  });

  test.each(['SWITCH', 'FAST_REQUEST', 'FAST_FAILED'])('%s does not belong', async (name) => {
    const { broken, onFastPath } = await scene();
    const path = await onFastPath();
    const [kind, payload, header] = frames[name]!;
    path.send(kind, name === 'FAST_REQUEST' ? json({ number: 2 }) : payload, header);
    expect(await broken()).toContain('on a fast path');
  });
});
