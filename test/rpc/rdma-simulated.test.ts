import { describe, expect, test } from 'vitest';
import { CompletionStatus, resetForTest, simulatedDevice } from '../support/simulated-device.js';
import { simulatedRdmaSetUp } from '../support/transports/rdma-simulated.js';
import { rpc } from './index.js';
import { Gate, served, until, verbmqErrorOf } from './support.js';

const device = await simulatedDevice('rxe');
const setUp = simulatedRdmaSetUp(device);

rpc('simulated RDMA (rxe)', setUp);

describe('a device that is slow to let go of a connection that failed', () => {
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (;;) yield new Uint8Array(1000);
  }

  test('holds up no call, and none is told that it had not left', async () => {
    resetForTest(device, 'rxe');
    const gate = new Gate();
    let swallowed = 0;
    const { api, near } = await served(setUp, {
      wait: () => gate.opened,
      swallow: async (source: AsyncIterable<Uint8Array>) => {
        for await (const _ of source) swallowed++;
      },
    });
    const calls = [verbmqErrorOf(api.wait()), verbmqErrorOf(api.swallow(endless()))];
    await until(() => swallowed > 10);
    device.set('destroy_blocks_us', 1_000_000);
    device.failWork(CompletionStatus.retriesExceeded);
    for (const error of await Promise.all(calls)) {
      expect(error).toMatchObject({ code: 'ERR_VERBMQ_CONNECTION_LOST', outcome: 'unknown' });
    }
    expect(near.state).toBe('closing');
    device.set('destroy_blocks_us', 0);
    gate.open();
    await near.closed;
  });
});
