import type { Transport } from '@verbmq/core';
import type { AutoOptions } from '@verbmq/core/auto';
import { describe, expect, test } from 'vitest';
import { asAuto, autoWorld, onFast } from '../support/auto-pair.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { Kind, RawAutoPeer, rawTransport } from '../support/raw-auto-peer.js';
import { firstOf, HELLO, KEY, NOTHING, proofOf, RESUME_DUE, tryAll } from '../support/wrong-json.js';

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
