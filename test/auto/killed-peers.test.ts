import { type VerbmqError, VerbmqTransport } from 'verbmq';
import { describe, expect, onTestFinished, test } from 'vitest';
import { asAuto, onBase, pathIs } from '../support/auto-pair.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { abortAfterTest } from '../support/pair.js';
import { PeerProcess, type PeerTask } from '../support/peer-process.js';
import { autoOverTcpSetUp } from '../support/transports/auto.js';
import { tcpSetUp } from '../support/transports/tcp.js';

const setUp = autoOverTcpSetUp(tcpSetUp());

function clientTransport(options: ConstructorParameters<typeof VerbmqTransport>[0]): VerbmqTransport {
  const transport = new VerbmqTransport({ policy: 'tcp', maxResumeDelayMs: 100, ...options });
  onTestFinished(() => transport.close());
  return transport;
}

const serve = (task: Omit<PeerTask & { role: 'listen' }, 'role'>, port = 0): PeerProcess =>
  new PeerProcess(setUp, { ...task, role: 'listen' }, { host: '127.0.0.1', port });

describe('a server that is killed', () => {
  test('and started anew on its port does not know the session, and a new one works', async () => {
    const first = serve({ reads: true });
    const transport = clientTransport({});
    const client = abortAfterTest(await transport.connect(await first.url()));
    const port = Number((await first.url()).split(':').at(-1));
    // More than the window, so that sends wait when it dies, and much is under way.
    first.kill('SIGSTOP');
    const sends = Array.from({ length: 100 }, (_, n) => client.send(numbered(n, 100_000)));
    const results = Promise.allSettled(sends);
    first.kill('SIGKILL');
    await first.exited;
    const second = serve({ echoes: true }, port);
    await second.url();
    const { error } = await client.closed;
    expect(error).toMatchObject({
      code: 'ERR_VERBMQ_CONNECTION_LOST',
      reason: 'session-unknown',
      outcome: 'unknown',
    });
    // Those that waited for room never left: that is certain, so they may be sent again.
    const refused = (await results).filter((result) => result.status === 'rejected');
    expect(refused.length).toBeGreaterThan(0);
    for (const { reason } of refused) {
      expect(reason).toMatchObject({
        code: 'ERR_VERBMQ_CONNECTION_LOST',
        reason: 'session-unknown',
        retryable: true,
      });
      expect((reason as VerbmqError).outcome).toBeUndefined();
    }

    const again = abortAfterTest(await transport.connect(await second.url()));
    await again.send(numbered(7));
    expect(numberOf((await take(again, 1))[0]!)).toBe(7);
  });

  test('and does not come back is given up when the window is over', async () => {
    const server = serve({ reads: true });
    const client = abortAfterTest(await clientTransport({ resumeWindowMs: 200 }).connect(await server.url()));
    server.kill('SIGKILL');
    expect((await client.closed).error).toMatchObject({ reason: 'resume-timeout' });
  });
});

test('a server that hangs for longer than its peer waits, and wakes, has its session resumed', async () => {
  const server = serve({ echoes: true });
  const transport = clientTransport({
    heartbeatIntervalMs: 50,
    peerTimeoutMs: 200,
    handshakeTimeoutMs: 1000,
    resumeWindowMs: 20_000,
  });
  const client = asAuto(abortAfterTest(await transport.connect(await server.url())));
  await client.send(numbered(1));
  expect(numberOf((await take(client, 1))[0]!)).toBe(1);
  server.kill('SIGSTOP');
  await client.send(numbered(2));
  await pathIs(client, ({ flowing }) => !flowing);
  await client.send(numbered(3));
  server.kill('SIGCONT');
  await onBase(client);
  expect((await take(client, 2)).map(numberOf)).toEqual([2, 3]);
});
