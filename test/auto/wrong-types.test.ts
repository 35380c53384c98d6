// Longer than 300 lines: it is one list of the frames with JSON, and how each is brought to the side that reads it.
import { createHmac } from 'node:crypto';
import type { Listener, Transport } from '@verbmq/core';
import type { AutoConnection, AutoOptions } from '@verbmq/core/auto';
import { describe, expect, onTestFinished, test } from 'vitest';
import { asAuto, autoWorld, onFast, pathIs } from '../support/auto-pair.js';
import { classify, turns } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { Kind, pathProof, RawAutoPeer, rawTransport } from '../support/raw-auto-peer.js';

/** What a field must be. With a question mark it may be absent. */
type Due = 'text' | 'number' | 'boolean' | 'object' | 'list' | 'text?' | 'boolean?' | 'object?';

/** How the reader of a frame took it. */
type Outcome = 'taken' | 'refused';

interface Frame {
  readonly due: Readonly<Record<string, Due>>;
  readonly valid: object;
}

const LIMITS = { maxMessageBytes: 1000, windowBytes: 100_000 };
const LIMITS_DUE = { maxMessageBytes: 'number', windowBytes: 'number' } as const;
const RESUME_DUE = {
  resume: 'object?',
  'resume.session': 'text',
  'resume.secret': 'text',
  'resume.epoch': 'number',
} as const;

const HELLO: Frame = {
  valid: {
    version: 1,
    ...LIMITS,
    nonce: 'AAAAAAAAAAAAAAAAAAAAAA',
    fastReason: 'policy',
    fastRequired: false,
  },
  due: { version: 'number', ...LIMITS_DUE, nonce: 'text', fastReason: 'text?', fastRequired: 'boolean?' },
};
const WELCOME: Frame = {
  valid: { ...LIMITS, session: 's', secret: 't', fastReason: 'policy', fastRequired: false, resumed: false },
  due: {
    ...LIMITS_DUE,
    session: 'text',
    secret: 'text',
    fastReason: 'text?',
    fastRequired: 'boolean?',
    resumed: 'boolean',
  },
};
const NOTHING: Frame = { valid: {}, due: {} };

const ABSENT = Symbol('absent');
const OTHERS: readonly [what: string, value: unknown, type: Due | undefined][] = [
  ['null', null, undefined],
  ['a number', 7, 'number'],
  ['a number that is not whole', 1e300, 'number'],
  ['a text', 'text', 'text'],
  ['true', true, 'boolean'],
  ['an empty list', [], 'list'],
  ['a list', [null, 1, {}], 'list'],
  ['an empty object', {}, 'object'],
  ['an object that is no text', { toString: null, valueOf: 1, length: 3 }, 'object'],
  ['a text that is too long', 'x'.repeat(5000), undefined],
  ['a text that is longer than a frame', 'x'.repeat(20_000), undefined],
  ['nothing', ABSENT, undefined],
];

interface Variant {
  readonly what: string;
  readonly value: unknown;
  /** Whether no reader may take it. */
  readonly wrong: boolean;
}

/** The frame as it should be, each field in every other way, and in place of the object something else. */
function variantsOf({ valid, due }: Frame): Variant[] {
  const fields = Object.entries(due).flatMap(([path, type]) =>
    OTHERS.map(([other, value, otherType]) => ({
      what: `${path} is ${other}`,
      value: replaced(valid, path.split('.'), value),
      wrong: value === ABSENT ? !type.endsWith('?') : otherType !== type.replace('?', ''),
    })),
  );
  const wholes = OTHERS.filter(([, value, type]) => type !== 'object' && value !== ABSENT);
  return [...fields, ...wholes.map(([what, value]) => ({ what: `it is ${what}`, value, wrong: true }))];
}

function replaced(of: unknown, [name, ...rest]: string[], value: unknown): unknown {
  const copy = (Array.isArray(of) ? [...of] : { ...(of as object) }) as Record<string, unknown>;
  if (rest.length > 0) copy[name as string] = replaced(copy[name as string], rest, value);
  else if (value === ABSENT) delete copy[name as string];
  else copy[name as string] = value;
  return copy;
}

/** Gives each variant of a frame to its reader: none is thrown at by it, and it serves others as before. */
async function tryAll(
  frame: Frame,
  attempt: (value: unknown) => Promise<Outcome>,
  othersWork: () => Promise<unknown>,
): Promise<void> {
  const thrown: unknown[] = [];
  const note = (error: unknown): void => void thrown.push(error);
  for (const event of ['uncaughtException', 'unhandledRejection']) {
    process.on(event, note);
    onTestFinished(() => void process.off(event, note));
  }
  expect(await attempt(frame.valid), 'as it should be').toBe('taken');
  for (const { what, value, wrong } of variantsOf(frame)) {
    const outcome = attempt(value);
    if (wrong) expect(await outcome, what).toBe('refused');
    else await Promise.race([outcome, turns(20)]); // it may be worth nothing, as the number of another path
    outcome.catch(note);
    expect(thrown, what).toEqual([]);
    await othersWork();
  }
  await turns();
  expect(thrown).toEqual([]);
}

const KEY = Buffer.alloc(32, 'k');

/** As docs/protocol-auto.md says, of frames whose headers are all zeros but for the kind. */
function proofOf(speaker: string, said: readonly [kind: number, fields: unknown][]): string {
  const hmac = createHmac('sha256', KEY).update(`verbmq-auto-1 ${speaker}`);
  for (const [kind, fields] of said) {
    const payload = Buffer.from(JSON.stringify(fields));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(16 + payload.length);
    const header = Buffer.alloc(16);
    header[0] = kind;
    hmac.update(length).update(header).update(payload);
  }
  return hmac.digest('base64url');
}

const firstOf = (peer: RawAutoPeer, kind: number): Promise<Outcome> =>
  peer.next(kind).then(
    () => 'taken',
    () => 'refused',
  );

describe('from a hostile client', () => {
  async function scene(options: AutoOptions = {}) {
    const world = autoWorld({ both: options });
    const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
    const accepted = nextConnection(listener);
    const client = asAuto(abortAfterTest(await world.clientTransport.connect(listener.url)));
    const server = asAuto(abortAfterTest(await accepted));
    listener.onConnection((connection) => void abortAfterTest(connection));
    await onFast(client);
    const othersWork = async (): Promise<void> => {
      await client.send(numbered(42));
      expect(numberOf((await take(server, 1))[0]!)).toBe(42);
    };
    const base = rawTransport(world.base);
    const fast = rawTransport(world.fast);
    const peer = (): Promise<RawAutoPeer> => RawAutoPeer.connect(base, listener.address);
    return { listener, othersWork, peer, fast };
  }

  /** A session with a fast path that was asked for. */
  async function granted({ peer, fast }: { peer: () => Promise<RawAutoPeer>; fast: Transport }) {
    const raw = await peer();
    await raw.open();
    const { port, claim } = await raw.ask(1);
    return { claim, path: await RawAutoPeer.connect(fast, { host: 'here', port }) };
  }

  const saysHello =
    (peer: () => Promise<RawAutoPeer>) =>
    async (value: unknown): ReturnType<typeof firstOf> => {
      const raw = await peer();
      raw.sendJson(Kind.HELLO, value);
      return firstOf(raw, Kind.WELCOME);
    };

  test('HELLO', async () => {
    const { peer, othersWork } = await scene();
    await tryAll(HELLO, saysHello(peer), othersWork);
  });

  test('HELLO that resumes', async () => {
    const { peer, othersWork } = await scene();
    const { session, secret } = await (await peer()).open();
    await tryAll(
      {
        valid: { ...HELLO.valid, resume: { session, secret, epoch: 0 } },
        due: RESUME_DUE,
      },
      saysHello(peer),
      othersWork,
    );
  });

  test('AUTHENTICATE', async () => {
    const { peer, othersWork } = await scene({ preSharedKey: KEY });
    await tryAll(
      { valid: { proof: 'right' }, due: { proof: 'text' } },
      async (value) => {
        const raw = await peer();
        raw.sendJson(Kind.HELLO, HELLO.valid);
        const challenge = await raw.json(Kind.CHALLENGE);
        const proof = proofOf('client', [
          [Kind.HELLO, HELLO.valid],
          [Kind.CHALLENGE, challenge],
        ]);
        const right = JSON.stringify(value) === '{"proof":"right"}';
        raw.sendJson(Kind.AUTHENTICATE, right ? { proof } : value);
        return firstOf(raw, Kind.WELCOME);
      },
      othersWork,
    );
  });

  test('FAST_REQUEST', async () => {
    const { peer, othersWork } = await scene();
    await tryAll(
      { valid: { number: 1 }, due: { number: 'number' } },
      async (value) => {
        const raw = await peer();
        await raw.open();
        raw.sendJson(Kind.FAST_REQUEST, value);
        return firstOf(raw, Kind.FAST_GRANT);
      },
      othersWork,
    );
  });

  test('FAST_FAILED', async () => {
    const { peer, othersWork } = await scene();
    await tryAll(
      { valid: { number: 1, reason: 'busy' }, due: { number: 'number', reason: 'text' } },
      async (value) => {
        const raw = await peer();
        await raw.open();
        raw.sendJson(Kind.FAST_REQUEST, { number: 1 });
        await raw.next(Kind.FAST_GRANT);
        raw.sendJson(Kind.FAST_FAILED, value);
        raw.sendJson(Kind.FAST_REQUEST, { number: 2 });
        return firstOf(raw, Kind.FAST_GRANT);
      },
      othersWork,
    );
  });

  test('CLAIM', async () => {
    const { othersWork, ...world } = await scene();
    await tryAll(
      { valid: { token: 'right', proof: 'right' }, due: { token: 'text', proof: 'text' } },
      async (value) => {
        const { claim, path } = await granted(world);
        // In place of `right` stands what is.
        const right = JSON.stringify(value)
          .replace('"token":"right"', `"token":"${claim.token}"`)
          .replace('"proof":"right"', `"proof":"${claim.proof}"`);
        path.sendJson(Kind.CLAIM, JSON.parse(right));
        return firstOf(path, Kind.PROOF);
      },
      othersWork,
    );
  });

  test('PROVED', async () => {
    const { othersWork, ...world } = await scene();
    await tryAll(
      NOTHING,
      async (value) => {
        const { claim, path } = await granted(world);
        path.sendJson(Kind.CLAIM, claim);
        await path.next(Kind.PROOF);
        path.sendJson(Kind.PROVED, value);
        return firstOf(path, Kind.READY);
      },
      othersWork,
    );
  });
});

describe('from a hostile server', () => {
  const FAST_ADDRESS = { host: 'here', port: 5 };
  const GRANT = { number: 1, token: 'token', key: 'key', addresses: [FAST_ADDRESS] };
  const OPEN = { ...LIMITS, session: 's', secret: 't', resumed: false };

  interface Server {
    /** Answers the clients on the base connection from now on. */
    answer: (raw: RawAutoPeer) => Promise<void>;
    /** The same on fast ones. */
    answerFast: (raw: RawAutoPeer) => Promise<void>;
    readonly listener: Listener;
    readonly connect: () => Promise<AutoConnection>;
    readonly othersWork: () => Promise<void>;
  }

  async function scene(options: AutoOptions = {}): Promise<Server> {
    const world = autoWorld({ both: { resumeWindowMs: 0, ...options } });
    const listener = await rawTransport(world.base).listen({ host: 'here', port: 1 });
    const fastListener = await rawTransport(world.fast).listen(FAST_ADDRESS);
    const honest = await world.serverTransport.listen({ host: 'honest', port: 1 });
    const accepted = nextConnection(honest);
    const client = asAuto(abortAfterTest(await world.clientTransport.connect(honest.url)));
    const other = asAuto(abortAfterTest(await accepted));
    await onFast(client);
    const server: Server = {
      answer: async () => {},
      answerFast: async () => {},
      listener,
      connect: async () => asAuto(abortAfterTest(await world.clientTransport.connect(listener.address))),
      othersWork: async () => {
        await client.send(numbered(42));
        expect(numberOf((await take(other, 1))[0]!)).toBe(42);
      },
    };
    // What ends while it is answered is what the tests look at.
    listener.onConnection((connection) => {
      server.answer(new RawAutoPeer(abortAfterTest(connection))).catch(() => {});
    });
    fastListener.onConnection((connection) => {
      server.answerFast(new RawAutoPeer(abortAfterTest(connection))).catch(() => {});
    });
    return server;
  }

  /** An attempt to connect is refused with an error of ours, if it is. A path that cannot be had was asked for in right words. */
  const connecting = (server: Server): Promise<Outcome> =>
    server.connect().then(
      () => 'taken',
      (error: unknown) => {
        const code = classify(error);
        expect(code).toMatch(/^ERR_VERBMQ_(PROTOCOL|REJECTED|UNAVAILABLE)$/);
        return code === 'ERR_VERBMQ_UNAVAILABLE' ? 'taken' : 'refused';
      },
    );

  test('WELCOME', async () => {
    const server = await scene();
    const attempt = (value: unknown): Promise<Outcome> => {
      server.answer = async (raw) => {
        await raw.next(Kind.HELLO);
        raw.sendJson(Kind.WELCOME, value);
      };
      return connecting(server);
    };
    await tryAll(WELCOME, attempt, server.othersWork);
  });

  test('CHALLENGE', async () => {
    const server = await scene({ preSharedKey: KEY });
    const attempt = (value: unknown): Promise<Outcome> =>
      new Promise((resolve, reject) => {
        server.answer = async (raw) => {
          await raw.next(Kind.HELLO);
          raw.sendJson(Kind.CHALLENGE, value);
          resolve(await firstOf(raw, Kind.AUTHENTICATE));
          raw.connection.abort('enough');
        };
        server.connect().catch((error: unknown) => {
          if (typeof classify(error) !== 'string') reject(error);
        });
      });
    await tryAll({ valid: { nonce: 'n' }, due: { nonce: 'text' } }, attempt, server.othersWork);
  });

  test('AUTHENTICATE', async () => {
    const server = await scene({ preSharedKey: KEY });
    const attempt = (value: unknown): Promise<Outcome> => {
      server.answer = async (raw) => {
        const hello = await raw.json(Kind.HELLO);
        raw.sendJson(Kind.CHALLENGE, { nonce: 'n' });
        const own = await raw.json(Kind.AUTHENTICATE);
        raw.sendJson(Kind.WELCOME, OPEN);
        const proof = proofOf('server', [
          [Kind.HELLO, hello],
          [Kind.CHALLENGE, { nonce: 'n' }],
          [Kind.AUTHENTICATE, own],
          [Kind.WELCOME, OPEN],
        ]);
        const right = JSON.stringify(value) === '{"proof":"right"}';
        raw.sendJson(Kind.AUTHENTICATE, right ? { proof } : value);
      };
      return connecting(server);
    };
    await tryAll({ valid: { proof: 'right' }, due: { proof: 'text' } }, attempt, server.othersWork);
  });

  test('REFUSE', async () => {
    const server = await scene();
    const attempt = async (value: unknown): Promise<Outcome> => {
      server.answer = async (raw) => {
        await raw.next(Kind.HELLO);
        raw.sendJson(Kind.REFUSE, value);
      };
      const error = await server.connect().then(
        () => undefined,
        (reason: unknown) => reason,
      );
      return classify(error) === 'ERR_VERBMQ_REJECTED' ? 'taken' : 'refused';
    };
    await tryAll(
      {
        valid: { version: 1, reason: 'protocol', message: 'no' },
        due: { reason: 'text', message: 'text?' },
      },
      attempt,
      server.othersWork,
    );
  });

  /** Gives an answer to the request for a fast path; its session ends, or goes on. */
  async function answered(
    server: Server,
    kind: number,
    value: unknown,
    taken: (client: AutoConnection, raw: RawAutoPeer) => Promise<unknown>,
  ): Promise<Outcome> {
    let answerer: RawAutoPeer | undefined;
    server.answer = async (raw) => {
      answerer = raw;
      await raw.next(Kind.HELLO);
      raw.sendJson(Kind.WELCOME, OPEN);
      await raw.next(Kind.FAST_REQUEST);
      raw.sendJson(kind, value);
    };
    const client = await server.connect();
    const refused = client.closed.then(({ error }): Outcome => {
      expect(error?.code).toBe('ERR_VERBMQ_PROTOCOL');
      return 'refused';
    });
    const went = taken(client, answerer as RawAutoPeer).then((): Outcome => 'taken');
    went.catch(() => {}); // where it was refused
    return Promise.race([refused, went]);
  }

  test('FAST_GRANT', async () => {
    const server = await scene();
    const attempt = (value: unknown): Promise<Outcome> =>
      answered(server, Kind.FAST_GRANT, value, () => {
        return new Promise<void>((resolve) => {
          server.answerFast = async (raw) => {
            await raw.next(Kind.CLAIM);
            resolve();
          };
        });
      });
    await tryAll(
      {
        valid: GRANT,
        due: {
          number: 'number',
          token: 'text',
          key: 'text',
          addresses: 'list',
          'addresses.0': 'object',
          'addresses.0.host': 'text?',
          'addresses.0.port': 'number',
        },
      },
      attempt,
      server.othersWork,
    );
  });

  test('FAST_DECLINE', async () => {
    const server = await scene();
    const attempt = (value: unknown): Promise<Outcome> =>
      answered(server, Kind.FAST_DECLINE, value, (client) =>
        pathIs(client, ({ reason }) => reason === 'peer-declined'),
      );
    await tryAll(
      {
        valid: { number: 1, reason: 'busy', message: 'later' },
        due: { number: 'number', reason: 'text', message: 'text?' },
      },
      attempt,
      server.othersWork,
    );
  });

  /** Brings a client as far as the fast connection; there it goes on, or takes the connection for no path. */
  async function proving(
    server: Server,
    prove: (raw: RawAutoPeer) => Promise<void>,
    next: 'PROVED' | 'SWITCH',
  ): Promise<Outcome> {
    const proved = new Promise<Outcome>((resolve) => {
      server.answerFast = async (raw) => {
        await raw.next(Kind.CLAIM);
        await prove(raw);
        const outcome = await firstOf(raw, Kind.PROVED);
        if (next === 'PROVED' || outcome === 'refused') resolve(outcome);
      };
    });
    const moves = new Promise<Outcome>((resolve) => {
      server.answer = async (raw) => {
        await raw.next(Kind.HELLO);
        raw.sendJson(Kind.WELCOME, OPEN);
        await raw.next(Kind.FAST_REQUEST);
        raw.sendJson(Kind.FAST_GRANT, GRANT);
        if (next === 'SWITCH') resolve(await firstOf(raw, Kind.SWITCH));
      };
    });
    const client = await server.connect();
    const failed = pathIs(client, ({ reason }) => reason === 'probe-failed').then((): Outcome => 'refused');
    const outcome = await Promise.race([proved, moves, failed]);
    expect(client.state).toBe('open'); // an attempt has failed, and nothing else
    client.abort('enough');
    return outcome;
  }

  const BYTES = pathProof('server', OPEN.session, GRANT);

  test('PROOF', async () => {
    const server = await scene();
    const attempt = (value: unknown): Promise<Outcome> =>
      proving(
        server,
        async (raw) => {
          const exposed = await raw.connection.expose(32, { read: true });
          exposed.data.set(BYTES);
          const { descriptor } = exposed;
          const right = JSON.stringify(value).replace('"here"', JSON.stringify(descriptor));
          raw.sendJson(Kind.PROOF, JSON.parse(right));
        },
        'PROVED',
      );
    await tryAll(
      {
        valid: { bytes: BYTES.toString('base64url'), descriptor: 'here' },
        due: { bytes: 'text', descriptor: 'text' },
      },
      attempt,
      server.othersWork,
    );
  });

  test('READY', async () => {
    const server = await scene();
    const attempt = (value: unknown): Promise<Outcome> =>
      proving(
        server,
        async (raw) => {
          const exposed = await raw.connection.expose(32, { read: true });
          exposed.data.set(BYTES);
          raw.sendJson(Kind.PROOF, {
            bytes: BYTES.toString('base64url'),
            descriptor: exposed.descriptor,
          });
          await raw.next(Kind.PROVED);
          raw.sendJson(Kind.READY, value);
        },
        'SWITCH',
      );
    await tryAll(NOTHING, attempt, server.othersWork);
  });
});
