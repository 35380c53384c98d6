// What a crowd of clients that connect and vanish does to sessions of others.
import type { Connection } from '@verbmq/core';
import { AutoTransport } from '@verbmq/core/auto';
import { TcpTransport } from '@verbmq/tcp-fallback';
import { describe, expect, onTestFinished, test } from 'vitest';
import { asAuto } from '../support/auto-pair.js';
import { heard, messageFrame, sayHello, stranger } from '../support/auto-stranger.js';
import { abortAfterTest } from '../support/pair.js';
import { Kind } from '../support/raw-auto-peer.js';
import { until } from '../support/until.js';

const LIMIT = 5;
const HONEST = '127.0.0.1';
const CROWD = '127.0.0.2';

/** A server that keeps few sessions. */
async function scene() {
  const transport = new AutoTransport({
    policy: 'tcp',
    maxSuspendedSessions: LIMIT,
    base: new TcpTransport(),
  });
  onTestFinished(() => transport.close());
  const listener = await transport.listen('tcp://0.0.0.0:0');
  const accepted: Connection[] = [];
  const reasons: (string | undefined)[] = [];
  let received = 0;
  listener.onConnection((connection) => {
    accepted.push(abortAfterTest(connection));
    connection.onMessage(() => void received++);
    void connection.closed.then(({ error }) => reasons.push(error?.reason));
  });

  /** A client opens a session, sends a message if it `speaks`, and vanishes. Answers with what it may be resumed with. */
  const vanish = async (from: string, speaks: boolean): Promise<object> => {
    const due = received + (speaks ? 1 : 0);
    const peer = await stranger(listener, from);
    sayHello(peer);
    const { session, secret } = (await heard(peer)).fields;
    if (speaks) peer.write(messageFrame(1, 10));
    await until(() => received === due);
    const server = asAuto(accepted.at(-1) as Connection);
    peer.socket.resetAndDestroy();
    await until(() => server.state === 'closed' || !server.path.flowing);
    return { session, secret, epoch: 0 };
  };

  const expectResumed = async (resume: object): Promise<void> => {
    const peer = await stranger(listener, HONEST);
    sayHello(peer, { resume });
    expect(await heard(peer)).toMatchObject({ kind: Kind.WELCOME, fields: { resumed: true } });
  };

  /** So many sessions were given up because there were too many, and no other. */
  const expectGivenUp = async (count: number): Promise<void> => {
    await until(() => reasons.length >= count);
    expect(reasons).toEqual(new Array(count).fill('too-many-suspended'));
  };

  return { vanish, expectResumed, expectGivenUp };
}

describe('a session that waits to be resumed, while others are too many, is kept', () => {
  test('for a client that has spoken, where the others have not, wherever they come from', async () => {
    const { vanish, expectResumed, expectGivenUp } = await scene();
    const honest = [await vanish(HONEST, true), await vanish(HONEST, true)];
    for (let n = 0; n < 10; n++) await vanish(`127.0.1.${n}`, false);
    await expectGivenUp(7);
    for (const each of honest) await expectResumed(each);
  });

  test.each([true, false])(
    'for a client that comes from elsewhere than the crowd (all speak: %s)',
    async (speak) => {
      const { vanish, expectResumed, expectGivenUp } = await scene();
      const honest = [await vanish(HONEST, speak), await vanish('127.0.0.3', speak)];
      for (let n = 0; n < 10; n++) await vanish(CROWD, speak);
      await expectGivenUp(7);
      for (const each of honest) await expectResumed(each);
    },
  );

  test('for those that vanished last, where all are alike', async () => {
    const { vanish, expectResumed, expectGivenUp } = await scene();
    const tickets: object[] = [];
    for (let n = 0; n < 8; n++) tickets.push(await vanish(HONEST, true));
    await expectGivenUp(3);
    for (const each of tickets.slice(3)) await expectResumed(each);
  });

  test('for none that has come back, and does not wait any more', async () => {
    const { vanish, expectResumed, expectGivenUp } = await scene();
    const tickets: object[] = [];
    for (let n = 0; n < LIMIT; n++) tickets.push(await vanish(HONEST, true));
    for (const each of tickets) await expectResumed(each);
    for (let n = 0; n < LIMIT; n++) await vanish(CROWD, true);
    await expectGivenUp(0);
    await vanish(CROWD, true);
    await expectGivenUp(1);
    for (const each of tickets) await expectResumed(each);
  });
});
