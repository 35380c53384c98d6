// What a peer has said before it went is heard, also when the news that it is gone comes first. A device may acknowledge a
// message, and a connection manager may carry the disconnect that follows it, before its completion can be polled.
import type { CloseInfo, Connection } from '@verbmq/core';
import { describe, expect, test } from 'vitest';
import { settled, turns } from '../support/expectations.js';
import { numbered, numberOf } from '../support/messages.js';
import { nextConnection, type Pair, transportForTest } from '../support/pair.js';
import {
  CompletionStatus,
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair, simulatedSetUp } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

await onSimulatedDevice('rxe', (device) => {
  /** Whether the connection is still open after everything that waits has been handled. */
  async function undecided(connection: Connection): Promise<boolean> {
    await turns();
    return (await Promise.race([connection.closed, 'open'])) === 'open';
  }

  /** Waits until the disconnect of the peer that has ended was read. */
  async function disconnectRead(before: number): Promise<void> {
    await until(() => device.count('cm-events') > before);
    await turns();
  }

  describe.each<Personality>(TESTED_PERSONALITIES)('over a device like %s', (personality) => {
    test('an abort is told as one, behind every message that came before it', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const numbers: number[] = [];
      pair.server.onMessage(({ data }) => {
        numbers.push(numberOf(data));
      });
      device.hold('receive-completions');
      const before = device.count('cm-events');
      for (let n = 0; n < 5; n++) await pair.client.send(numbered(n));
      await until(() => device.held('receive-completions') === 5);
      pair.client.abort('enough');
      await pair.client.closed;
      await disconnectRead(before);
      expect(await undecided(pair.server)).toBe(true);
      device.release('receive-completions');
      expect((await pair.server.closed).error?.code).toBe('ERR_VERBMQ_PEER_ABORTED');
      expect(numbers).toEqual([0, 1, 2, 3, 4]);
      await expectNothingLeft(device, pair);
    });

    // What comes with it fills a batch, so that both are taken while another connection is being ended.
    test('an abort is told as one right behind a message that is to be read', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const accepted = nextConnection(pair.listener);
      const client = await pair.clientTransport.connect(pair.listener.url);
      const server = await accepted;
      for (const each of [pair.server, server]) each.onMessage(() => {});
      device.hold('receive-completions');
      for (let n = 0; n < 10; n++) await pair.client.send(numbered(n));
      for (let n = 0; n < 60; n++) await client.send(numbered(n));
      const sending = settled(client.send(new Uint8Array(1024 * 1024)));
      await until(() => device.held('receive-completions') === 71);
      for (const each of [pair.client, client]) each.abort('enough');
      await Promise.all([pair.client.closed, client.closed]);
      device.release('receive-completions');
      expect((await server.closed).error?.code).toBe('ERR_VERBMQ_PEER_ABORTED');
      expect(await sending).toBe('ERR_VERBMQ_ABORTED');
      await expectNothingLeft(device, pair);
    });

    test('an orderly end is one for both sides, also when the last close comes late', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const closing: Promise<CloseInfo>[] = [pair.client.closed, pair.server.closed];
      // The client has said close, and the server has heard it.
      device.hold('receive-completions');
      void pair.client.close();
      await until(() => device.held('receive-completions') === 1);
      device.hold('hardware');
      device.release('receive-completions');
      await until(() => pair.server.state === 'closing');
      await turns();
      // The server has said close too, and has ended, since the client's device has it. The client does not know it.
      device.hold('receive-completions');
      const before = device.count('cm-events');
      device.release('hardware');
      await pair.server.closed;
      await disconnectRead(before);
      expect(await undecided(pair.client)).toBe(true);
      device.release('receive-completions');
      for (const info of await Promise.all(closing)) expect(info).toMatchObject({ graceful: true });
      await expectNothingLeft(device, pair);
    });

    test('an abort is told as one to a side whose own sends fail first', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      device.hold('receive-completions');
      pair.client.abort('enough');
      await pair.client.closed;
      device.failWork(CompletionStatus.retriesExceeded);
      await pair.server.send(numbered(1)).catch(() => {});
      expect(await undecided(pair.server)).toBe(true);
      device.release('receive-completions');
      expect((await pair.server.closed).error?.code).toBe('ERR_VERBMQ_PEER_ABORTED');
      await expectNothingLeft(device, pair);
    });

    // What has come waits in the completion queue, and only the connection manager's news wakes the server.
    describe.each([
      ['its own receives', {}],
      ['shared receives', { sharedReceiveQueue: { slots: 64 } }],
    ])('at a server with %s', (_, own) => {
      async function sleepingServer(): Promise<Pair> {
        resetForTest(device, personality);
        const setUp = simulatedSetUp(device, { ...own, polling: 'event' });
        const serverTransport = transportForTest(setUp);
        const clientTransport = transportForTest(simulatedSetUp(device, { polling: 'busy' }));
        const listener = await serverTransport.listen(setUp.listenAddress());
        const accepted = nextConnection(listener);
        const client = await clientTransport.connect(listener.url);
        const server = await accepted;
        await turns();
        device.hold('cq-events');
        return { client, server, listener, clientTransport, serverTransport };
      }

      test('an abort that was not noticed is told as one, behind every message that came before it', async () => {
        const pair = await sleepingServer();
        const numbers: number[] = [];
        pair.server.onMessage(({ data }) => {
          numbers.push(numberOf(data));
        });
        const sent = device.count('sends');
        for (let n = 0; n < 4; n++) await pair.client.send(numbered(n));
        await until(() => device.count('sends') >= sent + 4);
        const before = device.count('cm-events');
        pair.client.abort('enough');
        await disconnectRead(before);
        device.release('cq-events');
        expect((await pair.server.closed).error?.code).toBe('ERR_VERBMQ_PEER_ABORTED');
        expect(numbers).toEqual([0, 1, 2, 3]);
        await expectNothingLeft(device, pair);
      });

      test('a close that was not noticed makes the end an orderly one', async () => {
        const pair = await sleepingServer();
        const before = device.count('cm-events');
        void pair.server.close();
        await disconnectRead(before);
        device.release('cq-events');
        for (const { closed } of [pair.client, pair.server])
          expect(await closed).toMatchObject({ graceful: true });
        await expectNothingLeft(device, pair);
      });
    });

    test('a device that never flushes says nothing more, and is waited for no longer than a moment', async () => {
      resetForTest(device, personality);
      device.set('flush_delay_us', -1);
      const pair = await simulatedPair(device);
      device.hold('receive-completions');
      pair.client.abort('never heard');
      const [client, server] = await Promise.all([pair.client.closed, pair.server.closed]);
      expect(client.error?.code).toBe('ERR_VERBMQ_ABORTED');
      expect(server.error?.code).toBe('ERR_VERBMQ_CONNECTION_LOST');
      await expectNothingLeft(device, pair);
    });
  });

  test('an abort by a process that was held up is delivered all the same', async () => {
    resetForTest(device, 'rxe');
    const pair = await simulatedPair(device, { heartbeatIntervalMs: 0 });
    device.hold('hardware');
    // Longer than an abort may take; the clock of the event loop does not see it.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1200);
    pair.client.abort('late');
    expect(await undecided(pair.client)).toBe(true);
    device.release('hardware');
    expect((await pair.server.closed).error?.code).toBe('ERR_VERBMQ_PEER_ABORTED');
    await expectNothingLeft(device, pair);
  });
});
