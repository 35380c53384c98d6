import type { Connection } from '@verbmq/core';
import { QueueBroker, type QueueBrokerOptions, queue } from '@verbmq/core/queue';
import { type RpcServer, rpcStats } from '@verbmq/core/rpc';
import { describe, expect, test } from 'vitest';
import { Gate, until, verbmqErrorOf } from '../rpc/support.js';
import { abortAfterTest, listenForTest, transportForTest } from '../support/pair.js';
import { QUICK_HEARTBEATS, serveEach, startPeer } from '../support/scripted-peer.js';
import type { SetUp } from '../support/set-up.js';

const PROGRAM = new URL('./queue-peer.mjs', import.meta.url);
const LOST = { code: expect.stringMatching(/ERR_VERBMQ_(CONNECTION_LOST|PEER_TIMEOUT)/) };

/**
 * What becomes of jobs when the process of one side is killed, or stands still.
 * @param ready what is waited for when there is a connection
 */
export function killedPeers(
  name: string,
  setUp: SetUp,
  ready: (connection: Connection) => Promise<unknown> = async () => {},
): void {
  /** A broker here, at whose queue a process of its own takes part. */
  async function brokerHere(role: 'consumer' | 'pusher', options?: QueueBrokerOptions) {
    const broker = new QueueBroker(options);
    const listener = await listenForTest(setUp, QUICK_HEARTBEATS);
    const { accepted, servers } = serveEach(listener, broker.service);
    const peer = startPeer(PROGRAM, { role, peer: setUp.peer, url: listener.url });
    const far = abortAfterTest(await accepted);
    await ready(far);
    const transport = transportForTest(setUp, QUICK_HEARTBEATS);
    const connect = async (): Promise<Connection> => abortAfterTest(await transport.connect(listener.url));
    return { broker, server: servers[0] as RpcServer, far, connect, ...peer };
  }

  /** A broker in a process of its own, and a connection to it. */
  async function brokerThere(broker: QueueBrokerOptions) {
    const { child, told } = startPeer(PROGRAM, {
      role: 'broker',
      peer: setUp.peer,
      address: setUp.listenAddress(),
      broker,
    });
    const transport = transportForTest(setUp, QUICK_HEARTBEATS);
    const near = abortAfterTest(await transport.connect((await told('listening')).url as string));
    await ready(near);
    return { near, child };
  }

  describe(`a peer of a queue that is killed, over ${name}`, () => {
    test.each([
      ['is killed', 'SIGKILL'],
      ['stands still', 'SIGSTOP'],
    ] as const)('a consumer that %s gives its work to others, in its order', async (_, signal) => {
      const { broker, server, far, child, told, connect } = await brokerHere('consumer');
      for (let n = 0; n < 6; n++) await broker.push('jobs', n);
      expect((await told('holds')).bodies).toEqual([0, 1, 2, 3, 4]);
      await until(() => broker.stats('jobs')?.acknowledged === 1);
      child.kill(signal);
      const seen: [number, number][] = [];
      for await (const job of queue<number>(await connect(), 'jobs').consume()) {
        seen.push([job.body, job.attempt]);
        job.acknowledge();
        if (seen.length === 1) await until(() => broker.stats('jobs')?.consumers === 1);
        if (seen.length === 5) break;
      }
      // What was not given to the one that is lost may have been taken before its loss was known.
      expect(seen.filter(([n]) => n !== 5)).toEqual([0, 2, 3, 4].map((n) => [n, 2]));
      expect(seen).toContainEqual([5, 1]);
      expect((await far.closed).error).toMatchObject(LOST);
      expect(broker.stats('jobs')).toMatchObject({ acknowledged: 6, redelivered: 4, unacknowledged: 0 });
      expect(broker.stats()).toMatchObject({ consumers: 0, heldBytes: 0 });
      await until(() => server.stats().running === 0);
      expect(rpcStats(far)).toMatchObject({ runningCalls: 0, backlogBytes: 0 });
    });

    test('who is killed while it waits for room does not wait any more', async () => {
      const { broker, server, far, child, connect } = await brokerHere('pusher', {
        maxReady: 3,
        whenFull: 'wait',
      });
      await until(() => server.stats().running === 1 && broker.stats('jobs')?.ready === 3);
      const alone = broker.stats('jobs')?.readyBytes as number;
      await until(() => broker.stats().heldBytes > alone); // the fourth one waits
      child.kill('SIGKILL');
      await until(() => broker.stats().heldBytes === alone);
      expect((await far.closed).error).toMatchObject(LOST);
      const taken: number[] = [];
      for await (const job of queue<number>(await connect(), 'jobs').consume()) {
        taken.push(job.body);
        job.acknowledge();
        if (taken.length === 3) break;
      }
      expect(taken).toEqual([0, 1, 2]);
      await until(() => server.stats().running === 0);
      expect(broker.stats()).toMatchObject({ consumers: 0, heldBytes: 0 });
    });

    test('a broker that is killed fails whatever waits, and says what may have happened', async () => {
      const { near, child } = await brokerThere({ maxReady: 1, whenFull: 'wait' });
      const jobs = queue<number>(near, 'jobs');
      const began = new Gate();
      const goesOn = new Gate();
      let finished = false;
      const working = verbmqErrorOf(
        jobs.work(async () => {
          began.open();
          await goesOn.opened;
          finished = true;
        }),
      );
      await jobs.push(1);
      await began.opened;
      await jobs.push(2);
      const waiting = [jobs.push(3), queue(near, 'others').consume().next()].map((each) =>
        verbmqErrorOf(each),
      );
      await queue(near, 'others too').push(1); // what was asked for before has arrived as well
      child.kill('SIGKILL');
      for (const error of await Promise.all(waiting))
        expect(error).toMatchObject({ ...LOST, outcome: 'unknown', retryable: false });
      goesOn.open();
      expect(await working).toMatchObject(LOST);
      expect(finished).toBe(true); // what was begun is finished first
      expect(rpcStats(near)).toMatchObject({ pendingCalls: 0, backlogBytes: 0 });
      expect((await verbmqErrorOf(jobs.push(4))).code).toBe('ERR_VERBMQ_CLOSED');
    });
  });
}
