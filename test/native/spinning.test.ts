// How long each way of polling goes on after the last completion. Judged by counting polls; what it costs and saves is measured
// (docs/performance.md).
import { setTimeout as sleep } from 'node:timers/promises';
import type { Polling, RdmaTransportOptions } from '@verbmq/native';
import { expect, test } from 'vitest';
import { settled } from '../support/expectations.js';
import { take } from '../support/messages.js';
import type { Pair } from '../support/pair.js';
import { onSimulatedDevice, resetForTest } from '../support/simulated-device.js';
import { errno, expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

/** More polls than are needed to take a message, its answer and their completions, and to find out that there are no more. */
const FEW = 200;

await onSimulatedDevice('rxe', (device) => {
  const polls = (): number => device.calls('ibv_poll_cq');

  async function quietPair(own: RdmaTransportOptions): Promise<Pair> {
    resetForTest(device, 'rxe');
    const pair = await simulatedPair(device, { heartbeatIntervalMs: 0, ...own });
    pair.server.onMessage(({ data }) => {
      expect(pair.server.trySend(data)).toBe(true);
    });
    return pair;
  }

  async function turnsOfTheLoop(count: number): Promise<void> {
    for (let n = 0; n < count; n++) await new Promise((resolve) => setImmediate(resolve));
  }

  /** Waits until both sides sleep: nothing is polled in many turns. */
  async function asleep(): Promise<void> {
    for (let before = -1; before !== polls(); ) {
      before = polls();
      await turnsOfTheLoop(50);
    }
  }

  /** Sends a message, takes the answer, and tells how often was polled until both sides slept again. */
  async function pollsOfOneEcho({ client }: Pair): Promise<number> {
    await asleep();
    const before = polls();
    const answer = take(client, 1);
    await client.send(new Uint8Array(8));
    await answer;
    await asleep();
    return polls() - before;
  }

  test.each<Polling>(['event', 'adaptive'])('without traffic nothing is polled (%s)', async (polling) => {
    const pair = await quietPair({ polling });
    for (let n = 0; n < 5; n++) await pollsOfOneEcho(pair); // each ends only when both sides sleep
    const before = polls();
    await turnsOfTheLoop(1000);
    expect(polls()).toBe(before);
    await expectNothingLeft(device, pair);
  });

  test('busy polling goes on without traffic', async () => {
    const pair = await quietPair({ polling: 'busy' });
    const before = polls();
    await until(() => polls() > before + 50 * FEW);
    await expectNothingLeft(device, pair);
  });

  test('event mode and a spin of 0 go to sleep at once, a longer spin goes on', async () => {
    const pollsWith = async (own: RdmaTransportOptions): Promise<number> => {
      const pair = await quietPair(own);
      const counted = await pollsOfOneEcho(pair);
      await expectNothingLeft(device, pair);
      return counted;
    };
    expect(await pollsWith({ polling: 'event' })).toBeLessThan(FEW);
    expect(await pollsWith({ polling: 'adaptive', spinMicros: 0 })).toBeLessThan(FEW);
    expect(await pollsWith({ polling: 'adaptive', spinMicros: 100_000 })).toBeGreaterThan(5 * FEW);
  });

  test('attempts to connect that fail change nothing about it', async () => {
    const pair = await quietPair({ polling: 'adaptive', spinMicros: 100_000 });
    const attempt = (registrations: number) => {
      device.failCall('ibv_reg_mr', errno.ENOMEM, { skip: registrations });
      return settled(pair.clientTransport.connect(pair.listener.url));
    };
    // The connecting side registers two pieces, then the accepting one.
    expect(await attempt(0)).toBe('ERR_VERBMQ_NO_BUFFERS');
    expect(await attempt(2)).toBe('ERR_VERBMQ_OVERLOADED');
    for (let counted = 0; counted < 5 * FEW; ) counted = await pollsOfOneEcho(pair);
    await expectNothingLeft(device, pair);
  });

  test('spinning is given up where it is in vain, and taken up again where it would have paid', async () => {
    const spinMicros = 50_000;
    const pair = await quietPair({ polling: 'adaptive', spinMicros });
    // Each message comes later than spinning goes on: half as long the next time, down to nothing.
    for (let n = 0; n < 6; n++) {
      await pollsOfOneEcho(pair);
      await sleep((spinMicros / 1000) * 1.5);
    }
    expect(await pollsOfOneEcho(pair)).toBeLessThan(FEW);
    // Messages that come soon after it fell asleep.
    for (let counted = 0; counted < 5 * FEW; ) counted = await pollsOfOneEcho(pair);
    await expectNothingLeft(device, pair);
  });
});
