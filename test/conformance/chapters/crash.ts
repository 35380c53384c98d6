import type { Connection, VerbmqError } from '@verbmq/core';
import { expect } from 'vitest';
import { testNeeding } from '../../support/conformance-test.js';
import { type Outcome, settled } from '../../support/expectations.js';
import { fill, numbered, numberOf, takeAll } from '../../support/messages.js';
import { abortAfterTest, listenForTest, nextConnection, transportForTest } from '../../support/pair.js';
import { PeerProcess, type PeerTask } from '../../support/peer-process.js';
import { type SetUp, stretched } from '../../support/set-up.js';

/** What a peer's death may be called. */
export const LOST = ['ERR_VERBMQ_CONNECTION_LOST', 'ERR_VERBMQ_PEER_TIMEOUT'];

/** A death that no system call tells must be found by heartbeats within the test's time. */
const OPTIONS = { heartbeatIntervalMs: stretched(500), peerTimeoutMs: stretched(2000) };

/** A connection to a peer process that listens. */
export async function connectToPeer(
  setUp: SetUp,
  task: Omit<PeerTask & { role: 'listen' }, 'role'>,
  options = OPTIONS,
): Promise<{ peer: PeerProcess; connection: Connection }> {
  const peer = new PeerProcess(setUp, { ...task, role: 'listen' });
  const transport = transportForTest(setUp, options);
  return { peer, connection: abortAfterTest(await transport.connect(await peer.url())) };
}

/** Everything pending came to its end, and whatever failed did so for one reason. */
function expectOneReason(outcomes: Outcome[], error: VerbmqError | undefined): void {
  const code = error?.code;
  expect(LOST, error?.message).toContain(code);
  for (const outcome of outcomes) expect(['ok', code]).toContain(outcome);
}

export function crash(setUp: SetUp): void {
  const testCrash = testNeeding('processes', setUp);
  const testLarge = setUp.crossesProcesses ? testNeeding('largeMessages', setUp) : testCrash;
  const oneSided = setUp.capabilities.oneSided !== 'none';
  const exposes = oneSided ? { exposes: 4096 } : {};

  testCrash(
    'a listening peer that is killed in mid traffic ends everything with one clear error',
    async () => {
      const { peer, connection } = await connectToPeer(setUp, { reads: true, floods: 1000, ...exposes });
      const outcomes: Promise<Outcome>[] = [];
      const iterator = connection.messages();
      if (oneSided) {
        const first = (await iterator.next()).value!;
        const remote = connection.attach(Buffer.from(first.data).toString());
        await remote.write(0, numbered(1));
        peer.kill('SIGSTOP'); // what begins now is pending when it dies
        for (let n = 0; n < 5; n++) {
          outcomes.push(settled(remote.read(0, 4096)), settled(remote.write(0, numbered(n))));
        }
        peer.kill('SIGCONT');
      }
      for (let n = 0; n < 100; n++) await iterator.next();
      for (let n = 0; n < 1000; n++) outcomes.push(settled(connection.send(numbered(n, 1000))));
      outcomes.push(settled(connection.drain()));
      peer.kill('SIGKILL');
      const rest = (async () => {
        for await (const _ of { [Symbol.asyncIterator]: () => iterator });
      })();
      outcomes.push(settled(rest));
      const { graceful, initiator, error } = await connection.closed;
      expect({ graceful, initiator }).toEqual({ graceful: false, initiator: 'remote' });
      expectOneReason(await Promise.all(outcomes), error);
      expect(await settled(rest)).toBe(error?.code);
    },
  );

  testCrash(
    'a connecting peer that is killed in mid traffic ends its connection, and the listener goes on',
    async () => {
      const listener = await listenForTest(setUp, OPTIONS);
      const accepted = nextConnection(listener);
      const peer = new PeerProcess(setUp, { role: 'connect', url: listener.url, reads: true, floods: 1000 });
      const connection = abortAfterTest(await accepted);
      const receiving = settled(takeAll(connection));
      const sends: Promise<Outcome>[] = [];
      await peer.reported('connected');
      for (let n = 0; n < 1000; n++) sends.push(settled(connection.send(numbered(n, 1000))));
      peer.kill('SIGKILL');
      const { error } = await connection.closed;
      expectOneReason(await Promise.all(sends), error);
      expect(await receiving).toBe(error?.code);

      const next = nextConnection(listener);
      const client = abortAfterTest(await transportForTest(setUp).connect(listener.url));
      await client.send(numbered(5));
      for await (const message of abortAfterTest(await next)) {
        expect(numberOf(message.data)).toBe(5);
        break;
      }
    },
  );

  testCrash('a peer that is killed while sends wait for it fails them and drain', async () => {
    const { peer, connection } = await connectToPeer(setUp, {});
    const length = Math.min(connection.maxMessageBytes, 10_000);
    const filled = await fill(connection, (n) => numbered(n, length));
    const sends: Promise<Outcome>[] = [];
    for (let n = 0; n < 100; n++) sends.push(settled(connection.send(numbered(filled + n, length))));
    const drained = settled(connection.drain());
    peer.kill('SIGKILL');
    const { error } = await connection.closed;
    expect(LOST).toContain(error?.code);
    expect(await Promise.all(sends)).toEqual(sends.map(() => error?.code));
    expect(await drained).toBe(error?.code);
  });

  testCrash(
    'a peer that is killed during close ends the close, and close says that not all went well',
    async () => {
      const { peer, connection } = await connectToPeer(setUp, {});
      const length = Math.min(connection.maxMessageBytes, 10_000);
      const filled = await fill(connection, (n) => numbered(n, length));
      const sends = [settled(connection.send(numbered(filled, length)))];
      const closing = connection.close();
      peer.kill('SIGKILL');
      const { graceful, error } = await closing;
      expect(graceful).toBe(false);
      expectOneReason(await Promise.all(sends), error);
    },
  );

  testLarge('a peer that is killed in the middle of a large message delivers no part of it', async () => {
    const length = 16 * 1024 * 1024;
    const { peer, connection } = await connectToPeer(setUp, { floods: length });
    const lengths: number[] = [];
    const firstArrived = new Promise<void>((resolve) => {
      connection.onMessage((message) => {
        lengths.push(message.byteLength);
        resolve();
      });
    });
    await firstArrived;
    peer.kill('SIGKILL');
    const { error } = await connection.closed;
    expect(LOST).toContain(error?.code);
    expect(lengths.every((each) => each === length)).toBe(true);
  });

  testCrash('after its peer was killed a transport can connect to a new one', async () => {
    const first = await connectToPeer(setUp, { echoes: true });
    first.peer.kill('SIGKILL');
    await first.connection.closed;
    await first.peer.exited;
    const second = await connectToPeer(setUp, { echoes: true });
    await second.connection.send(numbered(11));
    for await (const message of second.connection) {
      expect(numberOf(message.data)).toBe(11);
      break;
    }
  });

  testCrash('a peer whose program ends without a close is lost', async () => {
    const listener = await listenForTest(setUp, OPTIONS);
    const accepted = nextConnection(listener);
    const peer = new PeerProcess(setUp, { role: 'connect', url: listener.url });
    const connection = abortAfterTest(await accepted);
    await peer.reported('connected');
    peer.kill('SIGKILL');
    const { graceful, error } = await connection.closed;
    expect(graceful).toBe(false);
    expect(LOST).toContain(error?.code);
    expect(error?.retryable).toBe(true);
  });
}
