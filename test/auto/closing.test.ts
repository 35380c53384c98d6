import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type AutoPair, autoPair, onFast, pathIs } from '../support/auto-pair.js';
import { turns } from '../support/expectations.js';
import { numbered, numberOf } from '../support/messages.js';
import { PeerProcess } from '../support/peer-process.js';
import { autoOverTcpSetUp } from '../support/transports/auto.js';
import { tcpSetUp } from '../support/transports/tcp.js';
import { until } from '../support/until.js';

const TIMERS = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] as const;

/** The next attempt to resume is made: no pause before one is longer. */
async function attempt({ base }: AutoPair): Promise<void> {
  const { length } = base.attempts;
  await vi.advanceTimersByTimeAsync(20);
  await until(() => base.attempts.length > length);
}

async function lose(pair: AutoPair): Promise<void> {
  await pair.client.send(numbered(1));
  await pathIs(pair.client, ({ flowing }) => !flowing);
}

type Moment = [when: string, options: { policy?: 'tcp' }, come: (pair: AutoPair) => Promise<void>];

/** Both sides can still speak to each other: so what was accepted is delivered. */
const inOrder: Moment[] = [
  [
    'while the fast path is asked for',
    {},
    async ({ client }) => {
      expect(client.path.reason).toBe('negotiating');
    },
  ],
  [
    'while the fast path is connected to',
    {},
    async ({ fast }) => {
      fast.connecting = 'ignore';
      await until(() => fast.attempts.length === 1);
    },
  ],
  [
    'while the fast path is proved',
    {},
    async ({ fast }) => {
      fast.silence();
      await until(() => fast.attempts.length === 1);
      await turns(20);
    },
  ],
  [
    'while both sides agree on a path',
    {},
    async ({ client, fast }) => {
      await onFast(client);
      fast.breakOnce();
      client.trySend(numbered(0)); // which finds it
      await pathIs(client, ({ flowing }) => !flowing);
    },
  ],
  [
    'while the base connection is lost, and the fast path carries the data',
    {},
    async (pair) => {
      await onFast(pair.client);
      await onFast(pair.server);
      pair.base.cut();
      pair.client.sendControl(new Uint8Array(16).fill(16, 0, 1));
      await until(() => !pair.client.baseUp);
    },
  ],
];

/** There is nobody to speak to. */
const notInOrder: Moment[] = [
  [
    'before an attempt to resume',
    { policy: 'tcp' },
    async (pair) => {
      pair.base.cut();
      await lose(pair);
    },
  ],
  [
    'while it connects to resume',
    { policy: 'tcp' },
    async (pair) => {
      pair.base.cut();
      await lose(pair);
      pair.base.connecting = 'ignore';
      await attempt(pair);
    },
  ],
  [
    'while it says hello to resume',
    { policy: 'tcp' },
    async (pair) => {
      pair.base.cut();
      await lose(pair);
      pair.base.heal();
      pair.base.verdictOf = ({ kind }) => (kind === 'message' ? 'drop' : 'deliver');
      await attempt(pair);
      await turns(20);
    },
  ],
];

/** Closes a client at that moment: it ends while no time passes, and no timer is left. */
async function closedAt([, both, come]: Moment) {
  vi.useFakeTimers({ toFake: [...TIMERS] });
  onTestFinished(() => void vi.useRealTimers());
  const pair = await autoPair({ both });
  const received: number[] = [];
  pair.server.onMessage(({ data }) => received.push(numberOf(data)));
  await come(pair);
  const sent = pair.client.send(numbered(7)).catch(() => {});
  const closing = pair.client.close();
  let turnsTaken = 0;
  let over = false;
  void closing.then(() => {
    over = true;
  });
  for (; !over && turnsTaken < 200; turnsTaken++) await turns(1);
  expect(turnsTaken, 'turns of the event loop until it has ended').toBeLessThan(100);
  await sent;
  return { info: await closing, received, pair };
}

async function expectNothingLeft({ clientTransport, serverTransport, base }: AutoPair): Promise<void> {
  const { length } = base.attempts;
  base.heal();
  await Promise.all([clientTransport.close(), serverTransport.close()]);
  expect(vi.getTimerCount()).toBe(0);
  expect(base.attempts.length).toBe(length);
}

describe('close ends at once, and leaves nothing,', () => {
  test.each(inOrder)('%s: in order', async (...moment) => {
    const { info, received, pair } = await closedAt(moment);
    expect(info).toEqual({ graceful: true, initiator: 'local' });
    expect(received).toContain(7);
    await expectNothingLeft(pair);
  });

  test.each(notInOrder)('%s: with an error', async (...moment) => {
    const { info, pair } = await closedAt(moment);
    expect(info).toMatchObject({ graceful: false, error: { code: 'ERR_VERBMQ_CONNECTION_LOST' } });
    await expectNothingLeft(pair);
  });
});

describe('a process that has nothing else to do than to resume a session', () => {
  const setUp = autoOverTcpSetUp(tcpSetUp());

  async function lostServer(whenLost: 'closes' | 'waits', resumeWindowMs: number): Promise<PeerProcess> {
    const server = new PeerProcess(setUp, { role: 'listen', reads: true });
    const url = await server.url();
    const client = new PeerProcess(setUp, { role: 'connect', url, whenLost, options: { resumeWindowMs } });
    await client.reported('connected');
    server.kill('SIGKILL');
    return client;
  }

  test('exits by itself when it closes it', async () => {
    const client = await lostServer('closes', 600_000);
    expect(await client.reported('done')).toMatchObject({ code: 'ERR_VERBMQ_CONNECTION_LOST' });
    expect(await client.exited).toBe(0);
  });

  test('waits for the end of the window, and then exits by itself', async () => {
    const client = await lostServer('waits', 1000);
    expect(await client.reported('done')).toMatchObject({ code: 'ERR_VERBMQ_CONNECTION_LOST' });
    expect(await client.exited).toBe(0);
  });
});
