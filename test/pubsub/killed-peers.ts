import type { Connection } from '@verbmq/core';
import { PubsubBroker, pubsub, resubscribe } from '@verbmq/core/pubsub';
import { type RpcServer, rpcStats } from '@verbmq/core/rpc';
import { describe, expect, test } from 'vitest';
import { until, verbmqErrorOf } from '../rpc/support.js';
import { abortAfterTest, listenForTest, transportForTest } from '../support/pair.js';
import { QUICK_HEARTBEATS, serveEach, startPeer } from '../support/scripted-peer.js';
import type { SetUp } from '../support/set-up.js';

const PROGRAM = new URL('./pubsub-peer.mjs', import.meta.url);
const LOST = { code: expect.stringMatching(/ERR_VERBMQ_(CONNECTION_LOST|PEER_TIMEOUT)/) };

/**
 * What becomes of events when the process of one side is killed, or stands still.
 * @param ready what is waited for when there is a connection
 */
export function killedPeers(
  name: string,
  setUp: SetUp,
  ready: (connection: Connection) => Promise<unknown> = async () => {},
): void {
  /** A broker here, at which a process of its own takes part, and somebody here who reads all. */
  async function brokerHere(role: 'subscriber' | 'publisher', whenSlow?: 'drop-oldest' | 'drop-newest') {
    const broker = new PubsubBroker();
    const listener = await listenForTest(setUp, QUICK_HEARTBEATS);
    const { accepted, servers } = serveEach(listener, broker.service);
    const { child, told } = startPeer(PROGRAM, { role, peer: setUp.peer, url: listener.url, whenSlow });
    const far = abortAfterTest(await accepted);
    await ready(far);
    const transport = transportForTest(setUp, QUICK_HEARTBEATS);
    const near = abortAfterTest(await transport.connect(listener.url));
    const events = pubsub(near).subscribe<{ n: number }>('#');
    await events.ready;
    return { broker, server: servers[0] as RpcServer, far, events, child, told };
  }

  /** A broker in a process of its own. */
  async function brokerThere() {
    const { child, told } = startPeer(PROGRAM, {
      role: 'broker',
      peer: setUp.peer,
      address: setUp.listenAddress(),
    });
    const { url } = await told('listening');
    const transport = transportForTest(setUp, QUICK_HEARTBEATS);
    const connect = async (): Promise<Connection> => {
      const connection = abortAfterTest(await transport.connect(url as string));
      await ready(connection);
      return connection;
    };
    return { child, connect };
  }

  describe(`a peer of topics that is killed, over ${name}`, () => {
    test.each([
      ['is killed', 'SIGKILL', 'drop-oldest'],
      ['stands still', 'SIGSTOP', 'drop-newest'],
    ] as const)(
      'a subscriber that %s holds up nobody, and leaves nothing behind',
      async (_, signal, whenSlow) => {
        const { broker, server, far, events, child, told } = await brokerHere('subscriber', whenSlow);
        await told('subscribed');
        broker.publish('a', { n: 0 });
        await told('read');
        expect((await events.next()).value?.body.n).toBe(0);
        child.kill(signal);
        // Until its loss is known, events for it wait boundedly, and beyond that they are dropped.
        const body = { n: 0, bytes: new Uint8Array(20_000) };
        let most = 0;
        while (far.state === 'open') {
          body.n++;
          broker.publish('a', body);
          expect((await events.next()).value).toMatchObject({ dropped: 0, body: { n: body.n } });
          most = Math.max(most, broker.stats().heldBytes);
        }
        expect((await far.closed).error).toMatchObject(LOST);
        expect(most).toBeLessThan(1100 * 20_200); // what waits for the one that is read there, and is the same for both
        if (signal === 'SIGSTOP') expect(broker.stats().dropped).toBeGreaterThan(0);
        await until(() => broker.stats().subscriptions === 1);
        expect(broker.stats().heldBytes).toBe(0);
        await until(() => server.stats().running === 0);
        expect(rpcStats(far)).toMatchObject({ runningCalls: 0, backlogBytes: 0 });
      },
    );

    test('a publisher that is killed ends what it publishes, and no subscription', async () => {
      const { broker, server, far, events, child } = await brokerHere('publisher');
      for (let read = 0; read < 50; read++) await events.next();
      child.kill('SIGKILL');
      expect((await far.closed).error).toMatchObject(LOST);
      const { published } = broker.stats();
      broker.publish('last', { n: -1 });
      for (;;) {
        const { value } = await events.next();
        expect(value?.dropped).toBe(0);
        if (value?.topic === 'last') break;
      }
      expect(broker.stats()).toMatchObject({ published: published + 1, subscriptions: 1, heldBytes: 0 });
      expect(server.stats().running).toBe(0);
    });

    test('a broker that is killed ends subscriptions, and resubscribe goes on with another one', async () => {
      const first = await brokerThere();
      const near = await first.connect();
      const topic = pubsub(near);
      const waiting = topic.subscribe('b');
      await waiting.ready;
      const reading = verbmqErrorOf(waiting.next());
      const brokers = [first, await brokerThere()];
      const connections: Connection[] = [];
      const events = resubscribe<number>(async () => {
        const connection = await (brokers[connections.length] as typeof first).connect();
        connections.push(connection);
        return connection;
      }, 'a');
      const read = events.next();
      while ((await topic.publish('a', 1)) === 0); // until it has subscribed
      expect((await read).value).toMatchObject({ body: 1, gap: false });
      first.child.kill('SIGKILL');
      expect(await reading).toMatchObject({ ...LOST, outcome: 'unknown' });
      expect((await verbmqErrorOf(topic.publish('a', 2))).code).toMatch(
        /ERR_VERBMQ_(CLOSED|CONNECTION_LOST)/,
      );
      expect(rpcStats(near)).toMatchObject({ pendingCalls: 0, backlogBytes: 0 });
      const next = events.next();
      await until(() => connections.length === 2);
      const other = pubsub(connections[1] as Connection);
      while ((await other.publish('a', 3)) === 0);
      expect((await next).value).toMatchObject({ body: 3, gap: true });
      await events.return();
    });
  });
}
