import { VerbmqTransport, type VerbmqTransportOptions } from 'verbmq';
import { describe, expect, onTestFinished, test } from 'vitest';
import { asAuto, pathIs, QUICK } from '../support/auto-pair.js';
import { failure } from '../support/expectations.js';
import { abortAfterTest } from '../support/pair.js';
import { onSimulatedDevice } from '../support/simulated-device.js';

await onSimulatedDevice('rxe', (device) => {
  const make = (
    rdma: VerbmqTransportOptions['rdma'],
    policy: VerbmqTransportOptions['policy'] = 'prefer-rdma',
  ): VerbmqTransport => {
    const transport = new VerbmqTransport({
      ...QUICK,
      policy,
      rdma: { ...rdma, libraries: device.libraries },
    });
    onTestFinished(() => transport.close());
    return transport;
  };

  async function deviceNames(): Promise<string[]> {
    const probe = await make({}).probe();
    const details = probe.available && probe.details.fast?.available ? probe.details.fast.details : undefined;
    const { devices } = details as { devices: { name: string; problem?: unknown }[] };
    return devices.filter(({ problem }) => problem === undefined).map(({ name }) => name);
  }

  describe.each([
    ['a device', { device: 'nobody0' }, 'device-not-found'],
    ['an address', { localAddress: '192.0.2.7' }, 'address-not-available'],
  ])('%s that does not exist', (_, rdma, reason) => {
    test.each(['prefer-rdma', 'require-rdma'] as const)('is an error under %s', async (policy) => {
      const listener = await make({}).listen('verbmq://127.0.0.1:0');
      listener.onConnection((connection) => void abortAfterTest(connection));
      const own = make(rdma, policy);
      const connecting = await failure(own.connect(listener.url), 'ERR_VERBMQ_UNAVAILABLE');
      const listening = await failure(own.listen('verbmq://127.0.0.1:0'), 'ERR_VERBMQ_UNAVAILABLE');
      expect([connecting.reason, listening.reason]).toEqual([reason, reason]);
      expect(listener.stats().accepted).toBe(0);
    });

    test('is nothing to the policy tcp', async () => {
      const listener = await make(rdma, 'tcp').listen('verbmq://127.0.0.1:0');
      listener.onConnection((connection) => void abortAfterTest(connection));
      abortAfterTest(await make(rdma, 'tcp').connect(listener.url));
    });
  });

  test('those that exist are used', async () => {
    const names = await deviceNames();
    const kinds: string[] = [];
    for (const name of names) {
      const rdma = { device: name, localAddress: '127.0.0.1' };
      const listener = await make(rdma).listen('verbmq://127.0.0.1:0');
      listener.onConnection((connection) => void abortAfterTest(connection));
      const client = asAuto(abortAfterTest(await make(rdma).connect(listener.url)));
      const path = await pathIs(client, ({ fast, reason }) => fast || reason === 'unreachable');
      // One of them has the address; over another than was named nothing goes.
      if (!path.fast) expect(path.explanation).toContain(`only ${name} is to be used`);
      kinds.push(path.kind);
    }
    expect(kinds.filter((kind) => kind === 'rdma')).toEqual(['rdma']);
  });
});
