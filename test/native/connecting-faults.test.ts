// Every event of the connection manager, expected or not, in every state; and every call that can fail on the way. Longer than 300 lines, because it is a list.
import { stat } from 'node:fs/promises';
import { type Transport, VerbmqError } from '@verbmq/core';
import { describe, expect, test } from 'vitest';
import { failure, settled, turns } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { connectPair, transportForTest } from '../support/pair.js';
import { CmEvent, onSimulatedDevice, type Personality, resetForTest } from '../support/simulated-device.js';
import { errno, expectNothingLeft, simulatedPair, simulatedSetUp } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

await onSimulatedDevice('rxe', (device) => {
  /** Connects with a fault on the way: it works, or it fails with an error that says why; either way nothing is left. */
  async function connectWithFault(fault: () => void): Promise<'connected' | VerbmqError> {
    const setUp = simulatedSetUp(device);
    const [server, client] = [setUp.createTransport(), setUp.createTransport()];
    const listener = await server.listen(setUp.listenAddress());
    listener.onConnection(() => {});
    fault();
    const outcome = await client.connect(listener.url, { timeoutMs: 500 }).then(
      () => 'connected' as const,
      (error: unknown) => error,
    );
    await Promise.all([client.close(), server.close()]);
    await until(() => Object.keys(device.leftOver()).length === 0);
    expect(device.count('busy')).toBe(0);
    if (outcome === 'connected' || outcome instanceof VerbmqError) return outcome;
    throw outcome;
  }

  const onTheWay = [
    'addrResolved',
    'routeResolved',
    'connectRequest',
    'connectResponse',
    'established',
  ] as const;
  const instead = [
    'addrError',
    'routeError',
    'connectError',
    'unreachable',
    'rejected',
    'disconnected',
    'deviceRemoval',
    'addrChange',
    'timewaitExit',
  ] as const;

  describe.each<Personality>(['rxe', 'siw'])('connecting over a device like %s', (personality) => {
    const steps = onTheWay.filter((step) => personality !== 'siw' || step !== 'connectResponse');

    test('a first frame that is found while its handshake is given up makes no connection', async () => {
      resetForTest(device, personality);
      const handshakeTimeoutMs = 2000; // no machine is so busy that it runs out before all is held
      const setUp = simulatedSetUp(device, { handshakeTimeoutMs });
      const listener = await transportForTest(setUp).listen(setUp.listenAddress());
      listener.onConnection(() => {});
      device.hold('receive-completions');
      const connection = await transportForTest(setUp).connect(listener.url);
      await until(() => device.held('receive-completions') === 1);
      // The loop is held up: the timer that gives up runs before anything can be polled.
      await turns();
      device.release('receive-completions');
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, handshakeTimeoutMs + 50);
      await until(() => listener.stats().failed + listener.stats().accepted === 1);
      expect(listener.stats()).toEqual({ accepted: 0, failed: 1 });
      expect((await connection.closed).error?.code).toBe('ERR_VERBMQ_CONNECTION_LOST');
    });

    test('handshakes that do not come to an end are bounded in number, and the others are refused', async () => {
      resetForTest(device, personality);
      const setUp = simulatedSetUp(device, { handshakeTimeoutMs: 30_000 });
      const maxHandshakes = 3;
      const listener = await transportForTest(setUp).listen(setUp.listenAddress(), {
        maxHandshakes,
      } as object);
      const transport = transportForTest(setUp);
      const before = device.live('pinned-bytes');
      device.hold('receive-completions'); // so that no first frame is found
      const strangers = await Promise.all(
        Array.from({ length: maxHandshakes }, () => transport.connect(listener.url)),
      );
      const pinned = device.live('pinned-bytes') - before;
      const refused = await failure(transport.connect(listener.url), 'ERR_VERBMQ_OVERLOADED');
      expect(refused.retryable).toBe(true);
      await failure(transport.connect(listener.url), 'ERR_VERBMQ_OVERLOADED');
      // What they had is given back by another thread.
      await until(() => device.live('pinned-bytes') - before === pinned);
      expect(listener.stats()).toEqual({ accepted: 0, failed: 2 });
      // One that is given up makes room for another.
      strangers[0]!.abort();
      await until(() => listener.stats().failed === 3);
      const honest = await transport.connect(listener.url);
      device.release('receive-completions');
      await until(() => listener.stats().accepted === maxHandshakes);
      expect(honest.state).toBe('open');
    });

    test('a device that no event loop can watch is an error on either side, and the listener goes on', async () => {
      resetForTest(device, personality);
      const setUp = simulatedSetUp(device);
      const [client, server, helper] = [0, 1, 2].map(() => transportForTest(setUp)) as Transport[];
      const listener = await server!.listen(setUp.listenAddress());
      listener.onConnection(() => {});
      device.set('unwatchable_channels', 1);
      const error = await failure(client!.connect(listener.url), 'ERR_VERBMQ_NO_BUFFERS');
      expect(error.message).toContain('cannot be watched');
      device.set('unwatchable_channels', 0);
      // From here on the client has its channel.
      const elsewhere = await helper!.listen(setUp.listenAddress());
      elsewhere.onConnection(() => {});
      await client!.connect(elsewhere.url);
      device.set('unwatchable_channels', 1);
      await failure(client!.connect(listener.url), 'ERR_VERBMQ_OVERLOADED');
      device.set('unwatchable_channels', 0);
      await client!.connect(listener.url);
      await until(() => listener.stats().accepted === 1);
      expect(listener.stats()).toEqual({ accepted: 1, failed: 1 });
      await Promise.all([client, server, helper].map((each) => each!.close()));
      await until(() => Object.keys(device.leftOver()).length === 0);
    });

    test('an address that was not found in a while is looked for again until the time is over', async () => {
      resetForTest(device, personality);
      const setUp = simulatedSetUp(device);
      const listener = await transportForTest(setUp).listen(setUp.listenAddress());
      listener.onConnection(() => {});
      const before = device.calls('rdma_resolve_addr');
      device.replaceCmEvent(CmEvent.addrResolved, CmEvent.addrError, -errno.ETIMEDOUT);
      await transportForTest(setUp).connect(listener.url, { timeoutMs: 10_000 });
      expect(device.calls('rdma_resolve_addr') - before).toBe(2);
    });

    test.each(steps)('an event that never comes (%s) ends in time', async (step) => {
      resetForTest(device, personality);
      const outcome = await connectWithFault(() => device.dropCmEvents(CmEvent[step]));
      // The accepting side of RoCE needs no event to go on: the first message of its peer is one.
      if (outcome === 'connected') return expect(step).toBe('established');
      expect(outcome.code).toBe('ERR_VERBMQ_CONNECT_TIMEOUT');
      expect(outcome.message).not.toBe('');
    });

    describe.each(steps.filter((step) => step !== 'connectRequest'))('in place of the event %s', (step) => {
      test.each(instead)('the event %s has an answer', async (other) => {
        resetForTest(device, personality);
        const outcome = await connectWithFault(() =>
          device.replaceCmEvent(CmEvent[step], CmEvent[other], -errno.ETIMEDOUT),
        );
        if (outcome === 'connected') return expect(step).toBe('established');
        expect([
          'ERR_VERBMQ_CONNECT_FAILED',
          'ERR_VERBMQ_CONNECT_TIMEOUT',
          'ERR_VERBMQ_CONNECTION_LOST',
          'ERR_VERBMQ_DEVICE',
          'ERR_VERBMQ_REJECTED',
        ]).toContain(outcome.code);
      });
    });

    test.each(['addrChange', 'timewaitExit', 'addrResolved', 'routeResolved', 'established'] as const)(
      'an event that means nothing to an open connection (%s) does nothing',
      async (event) => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        expect(device.raiseCmEvent(CmEvent[event])).toBeGreaterThan(0);
        await pair.client.send(numbered(7));
        expect((await take(pair.server, 1)).map(numberOf)).toEqual([7]);
        await expectNothingLeft(device, pair);
      },
    );

    test.each(['disconnected', 'deviceRemoval', 'connectError', 'unreachable', 'rejected'] as const)(
      'an event that ends an open connection (%s) gives one clear error',
      async (event) => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        device.raiseCmEvent(CmEvent[event], -errno.ETIMEDOUT);
        const [client, server] = await Promise.all([pair.client.closed, pair.server.closed]);
        expect(client.error).toBeInstanceOf(VerbmqError);
        expect(server.error).toBeInstanceOf(VerbmqError);
        await expectNothingLeft(device, pair);
      },
    );

    const calls = [
      'rdma_create_event_channel',
      'rdma_create_id',
      'rdma_resolve_addr',
      'rdma_resolve_route',
      'rdma_create_qp',
      'ibv_create_qp',
      'rdma_connect',
      'rdma_accept',
      'rdma_get_cm_event',
      'ibv_query_device',
      'ibv_alloc_pd',
      'ibv_create_comp_channel',
      'ibv_create_cq',
      'ibv_reg_mr',
      'ibv_post_recv',
      'ibv_post_send',
      'ibv_req_notify_cq',
      'ibv_poll_cq',
      'ibv_modify_qp',
    ] as const;

    describe.each(calls)('%s fails', (symbol) => {
      test.each(['EIO', 'ENOMEM', 'EINVAL', 'EPERM'] as const)(
        'with %s: a clear error or none',
        async (name) => {
          resetForTest(device, personality);
          const outcome = await connectWithFault(() => device.failCall(symbol, errno[name]));
          if (outcome === 'connected') return;
          expect(outcome.message).not.toMatch(/undefined|Success|Unknown/);
          expect(outcome.message.length).toBeGreaterThan(20);
        },
      );

      test('for ever, on both sides: no crash, no hang, nothing left', async () => {
        resetForTest(device, personality);
        const before = device.calls(symbol);
        const outcome = await connectWithFault(() => device.failCall(symbol, errno.EIO, { times: -1 }));
        // These may fail when the connection is up; it ends then, or does without.
        const later = ['ibv_modify_qp', 'ibv_post_send', 'ibv_poll_cq'].includes(symbol);
        if (device.calls(symbol) > before && !later) expect(outcome).toBeInstanceOf(VerbmqError);
      });
    });

    test('a listen that fails says why and leaves nothing', async () => {
      for (const symbol of ['rdma_create_event_channel', 'rdma_create_id', 'rdma_bind_addr', 'rdma_listen']) {
        resetForTest(device, personality);
        const setUp = simulatedSetUp(device);
        const transport = setUp.createTransport();
        device.failCall(symbol, errno.EIO);
        await expect(transport.listen(setUp.listenAddress())).rejects.toBeInstanceOf(VerbmqError);
        await transport.close();
        await until(() => Object.keys(device.leftOver()).length === 0);
      }
    });
  });

  describe('devices that differ', () => {
    test.each([480, 100, 20, 0])('an inline limit of %i bytes', async (bytes) => {
      resetForTest(device, 'rxe');
      device.set('max_inline_bytes', bytes);
      const pair = await simulatedPair(device);
      for (let n = 0; n < 100; n++) await pair.client.send(numbered(n, 4 + n * 5));
      expect((await take(pair.server, 100)).map(numberOf)).toEqual(Array.from({ length: 100 }, (_, n) => n));
      await expectNothingLeft(device, pair);
    });

    test('the device of a connection is that of its id, not the first in the list', async () => {
      resetForTest(device, 'rxe');
      device.set('decoy_devices', 1);
      const pair = await simulatedPair(device);
      expect(pair.client).toMatchObject({ device: 'simulated0' });
      expect(pair.server).toMatchObject({ device: 'simulated0' });
      await expectNothingLeft(device, pair);
    });

    test('fewer reads in flight than wished, or none', async () => {
      for (const depth of [16, 1, 0]) {
        resetForTest(device, 'rxe');
        device.set('max_rd_atomic', depth);
        await expectNothingLeft(device, await connectPair(simulatedSetUp(device)));
      }
    });

    test('too few places in the device’s queues is an error that says so', async () => {
      resetForTest(device, 'rxe');
      const outcome = await connectWithFault(() => device.set('max_qp_wr', 10));
      expect(outcome).toMatchObject({ code: 'ERR_VERBMQ_NO_BUFFERS' });
      expect((outcome as VerbmqError).message).toContain('10 work requests');
    });

    test('a connect that the driver lets wait holds up neither timers nor other work', async () => {
      resetForTest(device, 'siw');
      const pair = await simulatedPair(device);
      device.set('connect_blocks_us', 500_000);
      let turns = 0;
      const timer = setInterval(() => turns++, 10);
      await pair.clientTransport.connect(pair.listener.url);
      clearInterval(timer);
      expect(turns).toBeGreaterThan(5);
      await expectNothingLeft(device, pair);
    });

    test('connects that the driver lets wait take none of the threads that files and host names need', async () => {
      resetForTest(device, 'siw');
      const pair = await simulatedPair(device);
      device.set('connect_blocks_us', 3_600_000_000);
      const attempts = Array.from({ length: 6 }, () =>
        settled(pair.clientTransport.connect(pair.listener.url)),
      );
      // More than libuv has threads, each within its call.
      await until(() => device.calls('rdma_connect') === 7);
      expect((await stat('/')).isDirectory()).toBe(true);
      device.set('connect_blocks_us', 0);
      expect(await Promise.all(attempts)).toEqual(attempts.map(() => 'ok'));
      await expectNothingLeft(device, pair);
    });

    test('a connect that the driver lets wait can be given up', async () => {
      resetForTest(device, 'siw');
      const pair = await simulatedPair(device);
      device.set('connect_blocks_us', 300_000);
      const given = new AbortController();
      const connecting = failure(
        pair.clientTransport.connect(pair.listener.url, { signal: given.signal }),
        'ERR_VERBMQ_CANCELLED',
      );
      await until(() => device.calls('rdma_connect') === 2);
      given.abort();
      await connecting;
      const late = settled(pair.clientTransport.connect(pair.listener.url));
      await until(() => device.calls('rdma_connect') === 3);
      await expectNothingLeft(device, pair);
      expect(await late).not.toBe('ok');
    });

    test.each([
      ['while the call to connect lasts', 200_000],
      ['while the peer does not answer', 0],
    ])(
      'an attempt over iWARP that is given up %s holds up neither timers nor other work',
      async (_, blocksUs) => {
        resetForTest(device, 'siw');
        const pair = await simulatedPair(device);
        const answersMs = 3000;
        device.set('cm_timeout_us', answersMs * 1000);
        device.set('connect_blocks_us', blocksUs);
        device.dropCmEvents(CmEvent.connectRequest);
        const given = new AbortController();
        const connecting = failure(
          pair.clientTransport.connect(pair.listener.url, { signal: given.signal }),
          'ERR_VERBMQ_CANCELLED',
        );
        await until(() => device.calls('rdma_connect') === 2);
        if (blocksUs === 0) await turns(100); // it has returned
        const from = performance.now();
        given.abort();
        await connecting;
        await until(() => device.calls('rdma_disconnect') === 1); // which waits for the answer
        await pair.client.send(numbered(1));
        expect((await take(pair.server, 1)).map(numberOf)).toEqual([1]);
        expect(performance.now() - from).toBeLessThan(answersMs);
        await expectNothingLeft(device, pair);
      },
    );
  });
});
