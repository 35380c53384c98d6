// Every call to the libraries fails at some moment of a connection's life, with any errno: then everything is settled, errors
// say why, nothing is left, and the next connection works.
import { type Connection, VerbmqError } from '@verbmq/core';
import type { RdmaTransportOptions } from '@verbmq/native';
import { describe, expect, test } from 'vitest';
import { pattern } from '../support/messages.js';
import { nextConnection } from '../support/pair.js';
import {
  AsyncEvent,
  type ObjectKind,
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { errno, SHORT, simulatedSetUp } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

const KIB = 1024;
/** In a slot; copied into a buffer; lent to the device. */
const LENGTHS = [100, 60 * KIB, 600 * KIB];
const EXPOSED_BYTES = 600 * KIB;
/** What fails is found out soon. */
const IMPATIENT: RdmaTransportOptions = {
  heartbeatIntervalMs: 50,
  peerTimeoutMs: 500,
  closeTimeoutMs: 500,
  handshakeTimeoutMs: 500,
};

const ERRNOS = [...new Set(Object.values(errno))];

const CALLS = [
  ...['ibv_get_device_list', 'ibv_open_device', 'ibv_query_device', 'ibv_query_port', 'ibv_alloc_pd'],
  ...['ibv_reg_mr', 'ibv_create_comp_channel', 'ibv_create_cq', 'ibv_get_cq_event', 'ibv_poll_cq'],
  ...['ibv_req_notify_cq', 'ibv_create_qp', 'ibv_modify_qp', 'ibv_post_send', 'ibv_post_recv'],
  ...['ibv_get_async_event', 'rdma_create_event_channel', 'rdma_create_id', 'rdma_bind_addr'],
  ...['rdma_resolve_addr', 'rdma_resolve_route', 'rdma_create_qp', 'rdma_connect', 'rdma_listen'],
  // What cannot be destroyed ends with its channel.
  ...['rdma_accept', 'rdma_disconnect', 'rdma_get_cm_event', 'rdma_destroy_id'],
];
const CALLS_OF_SHARED_SLOTS = ['ibv_create_srq', 'ibv_modify_srq', 'ibv_post_srq_recv'];
const OF_A_QUEUE_PAIR: readonly ObjectKind[] = ['qp', 'cq', 'pd', 'comp-channel', 'mr', 'pinned-bytes'];
/** With each, what is left when it fails: nobody can give that back. */
const CALLS_THAT_GIVE_BACK: Record<string, readonly ObjectKind[]> = {
  ibv_dereg_mr: ['mr', 'pinned-bytes', 'pd'],
  ibv_destroy_qp: OF_A_QUEUE_PAIR,
  ibv_dealloc_pd: ['pd'],
  ibv_destroy_cq: ['cq', 'comp-channel', 'pinned-bytes'],
  ibv_destroy_comp_channel: ['comp-channel'],
  ibv_close_device: ['context'],
};
const CALLS_THAT_GIVE_SHARED_SLOTS_BACK: Record<string, readonly ObjectKind[]> = {
  ibv_destroy_srq: ['srq', 'pd'],
  ibv_destroy_qp: [...OF_A_QUEUE_PAIR, 'srq'],
};

await onSimulatedDevice('rxe', (device) => {
  /** A life in which something of everything happens. Answers with the errors that the application was given. */
  async function live(own: RdmaTransportOptions): Promise<VerbmqError[]> {
    const setUp = simulatedSetUp(device, own);
    const errors: VerbmqError[] = [];
    const [server, client] = [setUp.createTransport(), setUp.createTransport()];
    try {
      const found = await client.probe();
      if (!found.available) expect(found.reason.length).toBeGreaterThan(20);
      const listener = await server.listen(setUp.listenAddress());
      const accepted = nextConnection(listener);
      const connection = await client.connect(listener.url, { timeoutMs: 1000 });
      const accepting = await unlessEnded(connection, accepted);
      device.raiseAsyncEvent(AsyncEvent.clientReregister);
      await talk(connection, accepting);
    } catch (error) {
      if (!(error instanceof VerbmqError)) throw error;
      errors.push(error);
    }
    await Promise.all([client.close(), server.close()]);
    return errors;
  }

  describe.each<Personality>(TESTED_PERSONALITIES)('on a device like %s', (personality) => {
    /** What each call is made to say, and when: once in the beginning, in the middle and at the end, and for ever. */
    async function failAtEachMoment(
      symbol: string,
      own: RdmaTransportOptions,
      mayBeLeft: readonly ObjectKind[] = [],
    ): Promise<void> {
      resetForTest(device, personality);
      expect(await live({ ...SHORT, ...own })).toEqual([]);
      const made = device.calls(symbol);
      expect(made, `calls of ${symbol} when all is well`).toBeGreaterThan(0);
      const faults = [0, made >> 1, made - 1]
        .map((skip) => ({ skip, times: 1 }))
        .concat([
          { skip: 0, times: -1 },
          { skip: made >> 1, times: -1 },
        ]);
      for (const [n, fault] of faults.entries()) {
        device.reset(personality);
        const before = device.leftOver();
        const number = ERRNOS[(symbol.length * 11 + n * 29) % ERRNOS.length]!;
        device.failCall(symbol, number, fault);
        const errors = await live({ ...IMPATIENT, ...own });
        for (const { message } of errors) {
          expect(message.length).toBeGreaterThan(20);
          expect(message).not.toMatch(/undefined|Success|\[object|NaN/);
        }
        const grown = (): ObjectKind[] =>
          (Object.entries(device.leftOver()) as [ObjectKind, number][])
            .filter(([kind, count]) => count > (before[kind] ?? 0))
            .map(([kind]) => kind);
        await until(() => grown().every((kind) => mayBeLeft.includes(kind)));
      }
      device.reset(personality);
      expect(await live({ ...SHORT, ...own })).toEqual([]);
    }

    test.each(CALLS)('%s', (symbol) => failAtEachMoment(symbol, {}));

    test.each(CALLS_OF_SHARED_SLOTS)('%s', (symbol) =>
      failAtEachMoment(symbol, { sharedReceiveQueue: { slots: 64 } }),
    );

    test.each(Object.entries(CALLS_THAT_GIVE_BACK))('%s, which gives back', (symbol, mayBeLeft) =>
      failAtEachMoment(symbol, {}, mayBeLeft),
    );

    test.each(Object.entries(CALLS_THAT_GIVE_SHARED_SLOTS_BACK))(
      '%s, which gives shared slots back',
      (symbol, mayBeLeft) => failAtEachMoment(symbol, { sharedReceiveQueue: { slots: 64 } }, mayBeLeft),
    );
  });
});

/** Messages of every kind there and back, one-sided operations, and an end in order. */
async function talk(client: Connection, server: Connection): Promise<void> {
  const owned = await server.expose(EXPOSED_BYTES, { read: true, write: true, atomic: true });
  const remote = client.attach(owned.descriptor);
  server.onMessage((message) => {
    const copy = message.data.slice();
    server.send(copy).catch(() => {}); // the end of the connection tells why
  });
  let echoes = 0;
  const all = new Promise<void>((resolve) => {
    client.onMessage(() => {
      if (++echoes === 3 * LENGTHS.length) resolve();
    });
  });
  for (let n = 0; n < 3; n++) for (const length of LENGTHS) await client.send(pattern(length, n));
  await unlessEnded(client, all);
  await remote.write(0, pattern(EXPOSED_BYTES));
  await remote.write(0, pattern(100));
  await remote.read(0, EXPOSED_BYTES);
  await remote.fetchAdd(8, 1n);
  await owned.revoke();
  const infos = await Promise.all([client.close(), server.closed]);
  for (const { error } of infos) if (error !== undefined) throw error;
}

async function unlessEnded<T>(connection: Connection, awaited: Promise<T>): Promise<T> {
  const ended = connection.closed.then(({ error }) => {
    throw error ?? new Error('the connection ended in order, and too soon');
  });
  return Promise.race([awaited, ended]);
}
