// Accepted connections that share their receive slots: no message finds none, nobody is starved, and every slot comes back.
import type { Connection, Listener, VerbmqError } from '@verbmq/core';
import { RdmaTransport, type RdmaTransportOptions } from '@verbmq/native';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { recordedLog } from '../support/recorded-log.js';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { SHORT } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

/** What is set aside for each connection, and how much of that is for messages. */
const RESERVED = 8;
const DATA = 4;
const SMALL: RdmaTransportOptions = { slotBytes: 256, sendSlots: 8, receiveSlots: 32 };

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(TESTED_PERSONALITIES)('a device like %s', (personality) => {
    interface Server {
      readonly transport: RdmaTransport;
      readonly clients: RdmaTransport;
      readonly listener: Listener;
      /** What was warned of. */
      readonly errors: () => VerbmqError[];
      readonly shared: () => { slots: number; postedSlots: number; lentSlots: number; connections: number };
      readonly connect: () => Promise<{ client: Connection; server: Connection }>;
      readonly close: () => Promise<void>;
    }

    async function serve(
      sharedReceiveQueue: { slots: number; maxConnections?: number },
      own: RdmaTransportOptions = {},
    ): Promise<Server> {
      const { libraries } = device;
      const options = { ...SHORT, ...SMALL, ...own, libraries };
      const { lines, logger } = recordedLog();
      const transport = new RdmaTransport({ ...options, logger, sharedReceiveQueue });
      const clients = new RdmaTransport(options);
      const close = async (): Promise<void> => {
        await Promise.all([clients.close(), transport.close()]);
      };
      onTestFinished(close);
      const listener = await transport.listen('rdma://127.0.0.1:0');
      const accepted: Connection[] = [];
      listener.onConnection((connection) => accepted.push(connection));
      return {
        transport,
        clients,
        listener,
        errors: () =>
          lines.flatMap(({ level, err }) =>
            level === 'warn' && err !== undefined ? [err as VerbmqError] : [],
          ),
        shared: () => transport.stats().sharedReceiveQueue as ReturnType<Server['shared']>,
        connect: async () => {
          const client = await clients.connect(listener.url);
          await until(() => accepted.length > 0);
          return { client, server: accepted.shift() as Connection };
        },
        close,
      };
    }

    async function expectAllReturned(server: Server): Promise<void> {
      await server.close();
      await until(() => Object.keys(device.leftOver()).length === 0);
      expect(device.count('busy')).toBe(0);
      expect(device.count('rnr-answers')).toBe(0);
    }

    test('finds a slot for every message of any traffic', async () => {
      resetForTest(device, personality);
      const traffic = fc.record({
        connections: fc.integer({ min: 1, max: 24 }),
        spareSlots: fc.integer({ min: 0, max: 100 }),
        receiveSlots: fc.integer({ min: DATA, max: 40 }),
        messages: fc.integer({ min: 1, max: 150 }),
        // Beyond a slot a message is a large one: some of each.
        longest: fc.integer({ min: 0, max: 600 }),
        pauseEvery: fc.integer({ min: 2, max: 40 }),
        retainEvery: fc.integer({ min: 2, max: 40 }),
        jitterMicros: fc.constantFrom(0, 0, 300),
        seed: fc.nat(1_000_000),
      });
      await fc.assert(
        fc.asyncProperty(traffic, async (t) => {
          device.reset(personality);
          device.set('completion_jitter_us', t.jitterMicros);
          device.set('jitter_seed', t.seed + 1);
          const server = await serve(
            { slots: t.connections * RESERVED + t.spareSlots, maxConnections: t.connections },
            { receiveSlots: t.receiveSlots },
          );
          const pairs = [];
          for (let n = 0; n < t.connections; n++) pairs.push(await server.connect());
          await Promise.all(
            pairs.flatMap(({ client, server: accepted }, n) => [
              exchange(client, accepted, t, n),
              exchange(accepted, client, t, n + 1000),
            ]),
          );
          await until(() => server.shared().postedSlots === server.shared().slots);
          expect(device.count('rnr-answers')).toBe(0);
          await server.close();
        }),
        { numRuns: Number(process.env.VERBMQ_SHARED_RUNS ?? 12) },
      );
    });

    test('keeps what is set aside from a peer that floods, and lends it the rest', async () => {
      resetForTest(device, personality);
      // No heartbeat asks for what was lent, however long this takes.
      const quiet = { heartbeatIntervalMs: 600_000, peerTimeoutMs: 1_800_000 };
      const server = await serve({ slots: 4 * RESERVED + 40, maxConnections: 4 }, quiet);
      const flood = await server.connect();
      flood.client.onMessage(() => {});
      let read = 0;
      const stop = flood.server.onMessage(() => read++);
      const sends: Promise<void>[] = [];
      for (let n = 0; n < 400; n++) sends.push(flood.client.send(Buffer.alloc(100)));
      await Promise.all(sends);
      await until(() => read === 400);
      expect(server.shared().lentSlots).toBe(32 - DATA);
      stop(); // the application reads no more
      await until(() => {
        flood.client.trySend(Buffer.alloc(100));
        return flood.server.stats().messagesQueued >= 16; // credits for up to half of the 32 may still be on their way
      });
      expect(server.shared().lentSlots).toBe(32 - DATA);

      for (let n = 0; n < 3; n++) {
        const { client, server: accepted } = await server.connect();
        accepted.onMessage((message) => void accepted.send(message.data));
        const answers: Buffer[] = [];
        client.onMessage((message) => void answers.push(Buffer.from(message.data)));
        for (let m = 0; m < 100; m++) await client.send(Buffer.from(`${m}`));
        await until(() => answers.length === 100);
        expect(answers.map(String)).toEqual(Array.from({ length: 100 }, (_, m) => `${m}`));
      }
      flood.server.abort('enough');
      await flood.server.closed;
      await expectAllReturned(server);
    });

    test('has back what an idle peer was lent', async () => {
      resetForTest(device, personality);
      const server = await serve({ slots: RESERVED * 4 }, { heartbeatIntervalMs: 20 });
      const { client, server: accepted } = await server.connect();
      accepted.onMessage(() => {});
      for (let n = 0; n < 200; n++) await client.send(Buffer.alloc(10));
      await until(() => server.shared().lentSlots > 0);
      await until(() => server.shared().lentSlots === 0);
      // And it can be lent again.
      for (let n = 0; n < 200; n++) await client.send(Buffer.alloc(10));
      await until(() => server.shared().lentSlots > 0);
      await expectAllReturned(server);
    });

    test('refuses a connection too many, and says what to do', async () => {
      resetForTest(device, personality);
      const server = await serve({ slots: 4 * RESERVED });
      const first = await server.connect();
      await server.connect();
      await expect(server.connect()).rejects.toMatchObject({ code: 'ERR_VERBMQ_OVERLOADED' });
      expect(server.errors()).toMatchObject([{ code: 'ERR_VERBMQ_NO_BUFFERS', reason: 'receive-pool-full' }]);
      expect(server.errors()[0]?.message).toContain('sharedReceiveQueue.maxConnections');
      await first.client.close();
      await first.server.closed;
      await server.connect();
      await expectAllReturned(server);
    });

    test.each([
      ['max_srq', 0, 32, 'has no shared receive queues'],
      ['max_srq_wr', 31, 32, 'allows 31 receives in a shared queue, not 32'],
      ['max_cqe', 303, 304, 'allows 303 completions in a queue, not 304'],
    ])('names the device that cannot: %s', async (setting, value, slots, words) => {
      resetForTest(device, personality);
      device.set(setting, value);
      const server = await serve({ slots });
      await expect(server.connect()).rejects.toMatchObject({ code: 'ERR_VERBMQ_REJECTED' });
      expect(server.errors()).toMatchObject([{ code: 'ERR_VERBMQ_UNSUPPORTED', reason: 'srq-unsupported' }]);
      expect(server.errors()[0]?.message).toContain(words);
      device.reset(personality);
      await server.connect();
      await expectAllReturned(server);
    });

    test('loses no slot to connections that end in the middle of traffic', async () => {
      resetForTest(device, personality);
      const server = await serve({ slots: 16 * RESERVED, maxConnections: 8 });
      const stays = await server.connect();
      stays.server.onMessage(() => {});
      for (let round = 0; round < 60; round++) {
        const { client, server: accepted } = await server.connect();
        accepted.onMessage(() => {});
        for (let n = 0; n < 40; n++) client.trySend(Buffer.alloc(n));
        for (let n = 0; n < round % 7; n++) await new Promise((resolve) => setImmediate(resolve));
        (round % 2 === 0 ? client : accepted).abort('now');
        await Promise.all([client.closed, accepted.closed]);
        await stays.client.send(Buffer.alloc(1));
      }
      await until(() => server.shared().postedSlots === server.shared().slots);
      expect(server.shared().connections).toBe(1);
      await expectAllReturned(server);
    });

    test('has the slots of unread messages back when they are read, also after the end', async () => {
      resetForTest(device, personality);
      const server = await serve({ slots: 4 * RESERVED });
      await server.connect();
      const { client, server: accepted } = await server.connect();
      for (let n = 0; n < DATA; n++) await client.send(Buffer.from([n]));
      await until(() => accepted.stats().messagesQueued === DATA);
      client.abort('done');
      await accepted.closed;
      await until(() => server.shared().postedSlots === server.shared().slots - DATA);
      const read: (number | undefined)[] = [];
      accepted.onMessage((message) => void read.push(message.data[0]));
      await until(() => server.shared().postedSlots === server.shared().slots);
      expect(read).toEqual([0, 1, 2, 3]);
      await expectAllReturned(server);
    });

    test('takes less memory for each connection', async () => {
      resetForTest(device, personality);
      const server = await serve({ slots: 800, maxConnections: 100 }, { sendSlots: 4 });
      const registered: number[] = [];
      for (let n = 0; n < 10; n++) {
        await server.connect();
        registered.push(server.transport.stats().registeredBytes);
      }
      const perConnection = 4 * 256 + 4096;
      expect(registered).toEqual(Array.from({ length: 10 }, (_, n) => 800 * 256 + (n + 1) * perConnection));
      await expectAllReturned(server);
    });
  });
});

interface Traffic {
  readonly messages: number;
  readonly longest: number;
  readonly pauseEvery: number;
  readonly retainEvery: number;
  readonly seed: number;
}

/** Sends numbered messages of random lengths; each must come once, whole, and in order. */
async function exchange(from: Connection, to: Connection, traffic: Traffic, salt: number): Promise<void> {
  const random = randoms(traffic.seed + salt);
  let received = 0;
  const arrived = new Promise<void>((resolve, reject) => {
    to.onMessage((message) => {
      const bytes = message.data;
      if (bytes.length > 0 && bytes.some((byte) => byte !== received % 251)) {
        reject(new Error(`message ${received} is damaged or out of order`));
      }
      received++;
      if (received % traffic.retainEvery === 0) {
        message.retain();
        setTimeout(() => message.release(), random() * 3);
      }
      if (received % traffic.pauseEvery === 0) {
        to.pause();
        setTimeout(() => to.resume(), random() * 3);
      }
      if (received === traffic.messages) resolve();
    });
  });
  for (let n = 0; n < traffic.messages; n++) {
    await from.send(Buffer.alloc(Math.floor(random() * (traffic.longest + 1)), n % 251));
  }
  await arrived;
}

/** Numbers from 0 to 1, the same for the same seed. */
function randoms(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
