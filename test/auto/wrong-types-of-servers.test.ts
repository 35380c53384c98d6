import type { Listener } from '@verbmq/core';
import type { AutoConnection, AutoOptions } from '@verbmq/core/auto';
import { describe, expect, test } from 'vitest';
import { asAuto, autoWorld, onFast, pathIs } from '../support/auto-pair.js';
import { classify } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { Kind, pathProof, RawAutoPeer, rawTransport } from '../support/raw-auto-peer.js';
import {
  firstOf,
  KEY,
  LIMITS,
  NOTHING,
  type Outcome,
  proofOf,
  tryAll,
  WELCOME,
} from '../support/wrong-json.js';

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

  /** Lets the peer read what proves the path. */
  async function exposeProof(raw: RawAutoPeer): Promise<string> {
    const { data, descriptor } = await raw.connection.expose(32, { read: true });
    data.set(BYTES);
    return descriptor;
  }

  test('PROOF', async () => {
    const server = await scene();
    const attempt = (value: unknown): Promise<Outcome> =>
      proving(
        server,
        async (raw) => {
          const descriptor = await exposeProof(raw);
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
          const descriptor = await exposeProof(raw);
          raw.sendJson(Kind.PROOF, { bytes: BYTES.toString('base64url'), descriptor });
          await raw.next(Kind.PROVED);
          raw.sendJson(Kind.READY, value);
        },
        'SWITCH',
      );
    await tryAll(NOTHING, attempt, server.othersWork);
  });
});
