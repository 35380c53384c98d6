// Messages in shared receive slots that are held for longer than their connection lives: each slot comes back once, and no other
// connection is touched.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Connection, Listener } from '@verbmq/core';
import { RdmaTransport, type RdmaTransportOptions } from '@verbmq/native';
import { describe, expect, onTestFinished, test } from 'vitest';
import { nextConnection } from '../support/pair.js';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { until } from '../support/until.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** What is set aside for each connection, and how much of that is for messages. */
const RESERVED = 8;
const DATA = 4;
/** As many connections as there may be. */
const SLOTS = 3 * RESERVED;
/** So often a place is used before a handle comes back; `cpp/engine/work_id.h` holds the same number. */
const GENERATIONS = 0x7fff;
const OPTIONS: RdmaTransportOptions = {
  ...{ slotBytes: 256, sendSlots: 8, receiveSlots: 32 },
  // No heartbeat asks for what was lent.
  ...{ heartbeatIntervalMs: 600_000, peerTimeoutMs: 1_800_000 },
};

await onSimulatedDevice('mlx', (device) => {
  interface Ends {
    readonly client: Connection;
    readonly server: Connection;
  }

  interface Server {
    readonly transport: RdmaTransport;
    readonly listener: Listener;
    readonly shared: () => { postedSlots: number; lentSlots: number; connections: number };
    readonly connect: () => Promise<Ends>;
  }

  async function serve(slots: number, maxConnections: number): Promise<Server> {
    const { libraries } = device;
    const sharedReceiveQueue = { slots, maxConnections };
    const transport = new RdmaTransport({ ...OPTIONS, libraries, sharedReceiveQueue });
    const clients = new RdmaTransport({ ...OPTIONS, libraries });
    onTestFinished(async () => {
      await Promise.all([clients.close(), transport.close()]);
    });
    const listener = await transport.listen('rdma://127.0.0.1:0');
    return {
      transport,
      listener,
      shared: () => transport.stats().sharedReceiveQueue as ReturnType<Server['shared']>,
      connect: async () => {
        const accepted = nextConnection(listener);
        return { client: await clients.connect(listener.url), server: await accepted };
      },
    };
  }

  /** Leaves messages with these numbers unread. */
  async function sendUnread({ client, server }: Ends, ...numbers: number[]): Promise<void> {
    for (const n of numbers) await client.send(Buffer.from([n]));
    await until(() => server.stats().messagesQueued === numbers.length);
  }

  function read(connection: Connection): (number | undefined)[] {
    const numbers: (number | undefined)[] = [];
    connection.onMessage(({ data }) => void numbers.push(data[0]));
    return numbers;
  }

  const handleOf = (connection: Connection): number => (connection as unknown as { handle: number }).handle;

  /** A connection that has ended with one unread message, and another one that has its handle and one as well. */
  async function successor(server: Server, keep: (ended: Connection) => void): Promise<Ends> {
    const ended = await server.connect();
    await sendUnread(ended, 1);
    ended.client.abort('done');
    await ended.server.closed;
    keep(ended.server);
    const handle = handleOf(ended.server);
    // Each takes the place that was left last.
    for (let n = 1; n < GENERATIONS; n++) await (await server.transport.listen('rdma://127.0.0.1:0')).close();
    const next = await server.connect();
    expect(handleOf(next.server)).toBe(handle);
    await sendUnread(next, 2);
    return next;
  }

  describe.each<Personality>(TESTED_PERSONALITIES)('a device like %s', (personality) => {
    test('has slots back that are released while their connection is going', async () => {
      resetForTest(device, personality);
      const server = await serve(SLOTS, 2);
      const stays = await server.connect();
      const lost = await server.connect();
      await sendUnread(lost, ...Array(DATA).keys());
      device.set('destroy_blocks_us', 200_000);
      lost.client.abort('done');
      await lost.server.ending;
      const { postedSlots } = server.shared();
      const numbers = read(lost.server);
      await until(() => server.shared().postedSlots === postedSlots + DATA);
      expect(server.shared().connections).toBe(2);
      expect(numbers).toEqual([0, 1, 2, 3]);
      await lost.server.closed;

      // What nobody has is lent again.
      stays.server.onMessage(() => {});
      for (let n = 0; n < 100; n++) await stays.client.send(Buffer.alloc(1));
      await until(() => server.shared().lentSlots > 0);
    });
  });

  describe('a message that outlives its connection until another one has its handle', () => {
    test('is released for itself', async () => {
      resetForTest(device, 'mlx');
      const server = await serve(SLOTS, 3);
      await server.connect();
      let ended: Connection | undefined;
      const next = await successor(server, (connection) => {
        ended = connection;
      });
      expect(server.shared().postedSlots).toBe(SLOTS - 2);
      const ofEnded = read(ended as Connection);
      await until(() => server.shared().postedSlots === SLOTS - 1);
      expect(ofEnded).toEqual([1]);
      // Nothing is held any more but by those that are there, so there is room for as many as there may be.
      await server.connect();
      const ofNext = read(next.server);
      await until(() => server.shared().postedSlots === SLOTS);
      expect(ofNext).toEqual([2]);
    });

    test('is forgotten by itself', async () => {
      resetForTest(device, 'mlx');
      const server = await serve(SLOTS, 3);
      await server.connect();
      const next = await successor(server, () => {});
      await until(() => {
        collectGarbage();
        return server.shared().postedSlots === SLOTS - 1;
      });
      await server.connect();
      const ofNext = read(next.server);
      await until(() => server.shared().postedSlots === SLOTS);
      expect(ofNext).toEqual([2]);
    });
  });
});
