import { expect, test } from 'vitest';
import { testNeeding } from '../../support/conformance-test.js';
import { failure, settled } from '../../support/expectations.js';
import { numbered, numberOf, take, takeAll } from '../../support/messages.js';
import { abortAfterTest, connectPair, transportForTest } from '../../support/pair.js';
import { PeerProcess } from '../../support/peer-process.js';
import { inGuest, type SetUp, stretched } from '../../support/set-up.js';
import { connectToPeer } from './crash.js';

/** Where somebody hangs: as short as a busy machine allows. */
const IMPATIENT = inGuest
  ? { heartbeatIntervalMs: 1000, peerTimeoutMs: 4000 }
  : { heartbeatIntervalMs: 200, peerTimeoutMs: 800 };

/** Where one peer hangs and another one does not: the latter must get its turn in time, however busy the machine. */
const FAIR = inGuest
  ? { heartbeatIntervalMs: 1500, peerTimeoutMs: 8000 }
  : { heartbeatIntervalMs: 250, peerTimeoutMs: 2000 };

const PATIENT = { heartbeatIntervalMs: stretched(100), peerTimeoutMs: stretched(8000) };

export function silence(setUp: SetUp): void {
  const testSilence = testNeeding('processes', setUp);

  testSilence('a peer that hangs is found by heartbeats, and everything pending fails', async () => {
    const { peer, connection } = await connectToPeer(setUp, { echoes: true }, IMPATIENT);
    await connection.send(numbered(1));
    expect(numberOf((await take(connection, 1))[0]!)).toBe(1);
    peer.kill('SIGSTOP');
    const receiving = settled(takeAll(connection));
    const { graceful, initiator, error } = await connection.closed;
    expect({ graceful, initiator }).toEqual({ graceful: false, initiator: 'remote' });
    expect(error).toMatchObject({ code: 'ERR_VERBMQ_PEER_TIMEOUT', retryable: true });
    expect(await receiving).toBe('ERR_VERBMQ_PEER_TIMEOUT');
  });

  testSilence('a peer that hangs is found while sends wait for it', async () => {
    const { peer, connection } = await connectToPeer(setUp, { reads: true }, IMPATIENT);
    peer.kill('SIGSTOP');
    const length = Math.min(connection.maxMessageBytes, 10_000);
    const sends = [];
    const most = 2 * setUp.unreadBytes + 16 * 1024 * 1024; // more than windows and the kernel's buffers take
    for (let n = 0; n * length < most; n++) sends.push(settled(connection.send(numbered(n, length))));
    const { error } = await connection.closed;
    expect(error?.code).toBe('ERR_VERBMQ_PEER_TIMEOUT');
    expect(await sends.at(-1)).toBe('ERR_VERBMQ_PEER_TIMEOUT');
    for (const outcome of await Promise.all(sends)) expect(['ok', error?.code]).toContain(outcome);
  });

  testSilence('an idle peer is kept while one that hangs is given up', async () => {
    const hanging = await connectToPeer(setUp, {}, FAIR);
    const idle = await connectToPeer(setUp, { echoes: true }, FAIR);
    hanging.peer.kill('SIGSTOP');
    expect((await hanging.connection.closed).error?.code).toBe('ERR_VERBMQ_PEER_TIMEOUT');
    expect(idle.connection.state).toBe('open');
    await idle.connection.send(numbered(3));
    expect(numberOf((await take(idle.connection, 1))[0]!)).toBe(3);
  });

  testSilence('a busy peer is not taken for dead within its timeout', async () => {
    const { connection } = await connectToPeer(setUp, { blocksMs: 1500 }, PATIENT);
    await connection.send(numbered(6));
    expect(numberOf((await take(connection, 1))[0]!)).toBe(6);
    expect(connection.state).toBe('open');
  });

  testSilence('a peer that hangs before it answers a connect is given up in time', async () => {
    const peer = new PeerProcess(setUp, { role: 'listen' });
    const url = await peer.url();
    peer.kill('SIGSTOP');
    const transport = transportForTest(setUp);
    await failure(transport.connect(url, { timeoutMs: 500 }), 'ERR_VERBMQ_CONNECT_TIMEOUT');
    const controller = new AbortController();
    const connecting = transport.connect(url, { signal: controller.signal });
    setImmediate(() => controller.abort());
    await failure(connecting, 'ERR_VERBMQ_CANCELLED');
    expect(transport.stats().connections).toBe(0);
  });

  testSilence('a connect that was given up does not reach the application of the peer', async () => {
    const peer = new PeerProcess(setUp, { role: 'listen', echoes: true });
    const url = await peer.url();
    peer.kill('SIGSTOP');
    const transport = transportForTest(setUp);
    await failure(transport.connect(url, { timeoutMs: 300 }), 'ERR_VERBMQ_CONNECT_TIMEOUT');
    peer.kill('SIGCONT');
    const connection = abortAfterTest(await transport.connect(url));
    await connection.send(numbered(2));
    expect(numberOf((await take(connection, 1))[0]!)).toBe(2);
  });

  test('a process that was itself busy for longer than the timeout does not take its peer for dead', async () => {
    const { client, server } = await connectPair(setUp, { both: IMPATIENT });
    const sleeper = new Int32Array(new SharedArrayBuffer(4));
    for (let round = 0; round < 2; round++) {
      Atomics.wait(sleeper, 0, 0, 1.5 * IMPATIENT.peerTimeoutMs);
      await client.send(numbered(round));
      expect(numberOf((await take(server, 1))[0]!)).toBe(round);
    }
    expect([client.state, server.state]).toEqual(['open', 'open']);
  });

  test('heartbeats can be turned off', async () => {
    const { client, server } = await connectPair(setUp, {
      both: { heartbeatIntervalMs: 0, peerTimeoutMs: 1 },
    });
    await client.send(numbered(1));
    expect(numberOf((await take(server, 1))[0]!)).toBe(1);
    const other = await connectPair(setUp, { both: { heartbeatIntervalMs: 5 } });
    await new Promise((resolve) => setTimeout(resolve, 20)); // some ticks of what would be its timer
    expect([client.state, other.client.state]).toEqual(['open', 'open']);
  });
}
