// The channel of rdma_cm, through which everything about connections is told, fails for good.
import { describe, expect, test } from 'vitest';
import { failure, turns } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { connectPair, nextConnection } from '../support/pair.js';
import { recordedLog } from '../support/recorded-log.js';
import { CmEvent, onSimulatedDevice, type Personality, resetForTest } from '../support/simulated-device.js';
import { errno, expectNothingLeft, simulatedSetUp } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(['rxe', 'siw'])('rdma_get_cm_event fails on a device like %s', (personality) => {
    test.each(['EIO', 'ENOMEM', 'EPERM', 'ENODEV'] as const)(
      'with %s, for ever: all that stood on it is told so once, and the loop rests',
      async (name) => {
        resetForTest(device, personality);
        const { lines, logger } = recordedLog();
        const logged = () => lines.filter(({ level }) => level === 'error');
        const pair = await connectPair(simulatedSetUp(device), { server: { logger } });
        // One more that waits for an event which never comes.
        device.dropCmEvents(CmEvent.routeResolved);
        const waiting = failure(pair.clientTransport.connect(pair.listener.url), 'ERR_VERBMQ_CONNECT_FAILED');
        await until(() => device.calls('rdma_resolve_route') === 2);

        const before = device.calls('rdma_get_cm_event');
        device.failCall('rdma_get_cm_event', errno[name], { times: -1 });
        device.raiseCmEvent(CmEvent.addrChange); // which is nothing, but both sides look
        for (const { error } of await Promise.all([pair.client.closed, pair.server.closed])) {
          expect(error).toMatchObject({ code: 'ERR_VERBMQ_CONNECTION_LOST', reason: 'cm-failed' });
          expect(error?.message).toContain('rdma_get_cm_event failed');
          expect(error?.message).toContain('connect and listen again');
        }
        expect((await waiting).message).toContain('rdma_get_cm_event failed');
        await until(() => logged().length > 0);
        expect(logged()).toMatchObject([
          { err: { code: 'ERR_VERBMQ_CONNECTION_LOST', reason: 'cm-failed' } },
        ]);
        await turns(50);
        expect(device.calls('rdma_get_cm_event') - before).toBe(2);

        // What is made then stands on a new one.
        await failure(pair.clientTransport.connect(pair.listener.url), 'ERR_VERBMQ_CONNECT_FAILED');
        device.reset(personality);
        const listener = await pair.serverTransport.listen(simulatedSetUp(device).listenAddress());
        const accepted = nextConnection(listener);
        const client = await pair.clientTransport.connect(listener.url);
        await client.send(numbered(7));
        expect((await take(await accepted, 1)).map(numberOf)).toEqual([7]);
        await expectNothingLeft(device, pair);
      },
    );

    test('and no new one can be had', async () => {
      resetForTest(device, personality);
      const pair = await connectPair(simulatedSetUp(device));
      device.failCall('rdma_get_cm_event', errno.EIO, { times: -1 });
      device.failCall('rdma_create_event_channel', errno.EMFILE, { times: -1 });
      device.raiseCmEvent(CmEvent.addrChange);
      await Promise.all([pair.client.closed, pair.server.closed]);
      const error = await failure(
        pair.clientTransport.connect(pair.listener.url),
        'ERR_VERBMQ_CONNECT_FAILED',
      );
      expect(error.message).toContain('rdma_create_event_channel failed');
      await failure(
        pair.serverTransport.listen(simulatedSetUp(device).listenAddress()),
        'ERR_VERBMQ_LISTEN_FAILED',
      );
      await expectNothingLeft(device, pair);
    });
  });
});
