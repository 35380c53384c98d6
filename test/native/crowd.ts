// Very many connections that share receive slots, fewer than they want, and that all send at the same time.
import type { Connection, Listener, Transport } from '@verbmq/core';
import type { RdmaTransport, RdmaTransportOptions, RdmaTransportStats } from '@verbmq/native';
import { expect } from 'vitest';
import { expectEchoes, numbered, numberOf, sameBytes } from '../support/messages.js';
import { transportForTest } from '../support/pair.js';
import type { SetUp } from '../support/set-up.js';
import { until } from '../support/until.js';

export interface CrowdSize {
  /** How many connections carry traffic. One more is open beside them. */
  readonly connections: number;
  /** Slots beyond those that are set aside for each. */
  readonly spareSlots: number;
  /** Messages of each connection to the server, more than it can have on their way, and back. */
  readonly up: number;
  readonly down: number;
}

/** What is set aside for each connection: docs/memory.md. */
const DATA_SLOTS = 4;
const CONTROL_SLOTS = 4;
const SLOTS_EACH = DATA_SLOTS + CONTROL_SLOTS;

const SLOT_BYTES = 256;
const SEND_SLOTS = 8;
/** A connection may have so many of the slots, beside those for control frames. */
const MOST_SLOTS = 32;
/** A connection's part of the memory for control frames: docs/memory.md. */
const PAGE_BYTES = 4096;

const COMMON: RdmaTransportOptions = {
  slotBytes: SLOT_BYTES,
  sendSlots: SEND_SLOTS,
  polling: 'event',
  // Nothing wakes who has overslept, and nobody is asked for what he was lent.
  heartbeatIntervalMs: 0,
  // It takes a while until each of so many has had its turn.
  handshakeTimeoutMs: 300_000,
  closeTimeoutMs: 300_000,
};
const CONNECT_TIMEOUT_MS = 300_000;
/** So many connect at the same time. */
const CONNECTING = 32;
/** One in so many reads nothing for a while. */
const LATE_EVERY = 10;
const ECHOES = 50;

/** A connection, and what has been sent and read on it. */
interface Member {
  readonly number: number;
  readonly client: Connection;
  readonly server: Connection;
  sent: number;
  read: number;
}

/**
 * All connections send at once, in both directions, while the server reads nothing, until every slot is lent; then it reads from nine of
 * ten of them, and then from the others. `look` is called before, when nothing goes on any more, in between, and behind.
 */
export async function crowdedTraffic(setUp: SetUp, size: CrowdSize, look: () => void): Promise<void> {
  const { connections, spareSlots, up, down } = size;
  const most = connections + 1;
  const slots = most * SLOTS_EACH + spareSlots;
  expect(up).toBeGreaterThan(MOST_SLOTS + SEND_SLOTS);
  const sharing: RdmaTransportOptions = {
    ...COMMON,
    receiveSlots: MOST_SLOTS,
    sharedReceiveQueue: { slots, maxConnections: most },
  };
  const having: RdmaTransportOptions = { ...COMMON, receiveSlots: 8 };
  const server = transportForTest(setUp, sharing) as RdmaTransport;
  const clients = transportForTest(setUp, having);
  const shared = () => server.stats().sharedReceiveQueue as Shared;
  const listener = await server.listen(setUp.listenAddress());
  const [bystander, ...members] = (await connectAll(clients, listener, most)) as [Member, ...Member[]];
  await until(() => shared().postedSlots === slots);
  expect(shared()).toMatchObject({ slots, lentSlots: 0, connections: most });
  const expectMemory = (): void => {
    const each = SEND_SLOTS * SLOT_BYTES + PAGE_BYTES;
    expect(server.stats().registeredBytes).toBe(slots * SLOT_BYTES + most * each);
    look();
  };
  expectMemory();

  for (const member of members) member.server.pause();
  const arrived = members.map((member) => arrivals(member, up, down));
  const sends = members.map((member) => sendAll(member, up, down));
  const all = Promise.all([...arrived, ...sends]);
  const queued = (): number => sum(members.map((member) => member.server.stats().messagesQueued));
  const allLent = until(
    () =>
      members.every((member) => member.server.stats().messagesQueued >= DATA_SLOTS) &&
      shared().lentSlots >= spareSlots,
  );
  await Promise.race([allLent, all]);
  expect(shared().lentSlots).toBe(spareSlots);
  expect(queued()).toBeLessThanOrEqual(connections * DATA_SLOTS + spareSlots);
  expect(shared().postedSlots).toBeGreaterThanOrEqual(most * CONTROL_SLOTS + DATA_SLOTS);
  expect(Math.max(...members.map(({ sent }) => sent))).toBeLessThan(up);
  expectMemory();
  await expectEchoes(bystander, ECHOES);

  const isLate = ({ number }: Member): boolean => number % LATE_EVERY === 0;
  const late = members.filter(isLate);
  for (const member of members) if (!isLate(member)) member.server.resume();
  const prompt = members.flatMap((member, n) => (isLate(member) ? [] : [arrived[n], sends[n]]));
  await Promise.race([Promise.all(prompt), all]);
  expect(shared().lentSlots).toBeLessThanOrEqual(spareSlots);
  for (const { read, server: end } of late) {
    expect(read).toBe(0);
    expect(end.stats().messagesQueued).toBeGreaterThanOrEqual(DATA_SLOTS);
  }
  expectMemory();

  for (const member of late) member.server.resume();
  await all;
  expectMemory();

  const ends = await Promise.all(members.flatMap(({ client, server: end }) => [client.close(), end.closed]));
  expect(ends.every(({ graceful }) => graceful)).toBe(true);
  await until(() => shared().connections === 1);
  await until(() => shared().postedSlots === slots);
  expect(shared().lentSlots).toBe(0);
  // With the one by which each was known.
  expect(server.stats().messagesReceived).toBe(connections * (up + 1) + ECHOES + 1);
  expect(clients.stats().messagesReceived).toBe(connections * down + ECHOES);
  await Promise.all([clients.close(), server.close()]);
}

type Shared = NonNullable<RdmaTransportStats['sharedReceiveQueue']>;

/** Connects, and finds out by a first message of each which connection is whose. */
async function connectAll(clients: Transport, listener: Listener, count: number): Promise<Member[]> {
  const accepted: Connection[] = [];
  let known = 0;
  listener.onConnection((connection) => {
    const stop = connection.onMessage(({ data }) => {
      stop();
      accepted[numberOf(data)] = connection;
      known++;
    });
  });
  const members: Member[] = [];
  while (members.length < count) {
    const first = members.length;
    const made = await Promise.all(
      Array.from({ length: Math.min(CONNECTING, count - first) }, () =>
        clients.connect(listener.url, { timeoutMs: CONNECT_TIMEOUT_MS }),
      ),
    );
    await Promise.all(made.map((client, n) => client.send(numbered(first + n))));
    await until(() => known === first + made.length);
    for (const [n, client] of made.entries())
      members.push({ number: first + n, client, server: accepted[first + n]!, sent: 0, read: 0 });
  }
  return members;
}

/** No two messages of a crowd are the same. */
function messageOf(member: Member, n: number, each: number): Uint8Array {
  const number = member.number * each + n;
  const bytes = new Uint8Array(4 + (number % 200)).fill(number % 251);
  new DataView(bytes.buffer).setUint32(0, number);
  return bytes;
}

async function sendAll(member: Member, up: number, down: number): Promise<void> {
  const upwards = async (): Promise<void> => {
    for (let n = 0; n < up; n++) {
      await member.client.send(messageOf(member, n, up));
      member.sent++;
    }
  };
  const downwards = async (): Promise<void> => {
    for (let n = 0; n < down; n++) await member.server.send(messageOf(member, n, down));
  };
  await Promise.all([upwards(), downwards()]);
}

/** Resolves when every message has come to both ends, each once and in order. */
async function arrivals(member: Member, up: number, down: number): Promise<void> {
  const come = (to: Connection, each: number, onRead = (): void => {}): Promise<void> =>
    new Promise((resolve, reject) => {
      let due = 0;
      to.onMessage(({ data }) => {
        if (!sameBytes(data, messageOf(member, due, each)))
          reject(new Error(`where message ${due} of ${member.number} was due came ${numberOf(data)}`));
        onRead();
        if (++due === each) resolve();
      });
      void to.closed.then(({ error }) => reject(error ?? new Error('the connection ended too soon')));
    });
  await Promise.all([come(member.server, up, () => member.read++), come(member.client, down)]);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
