import { RdmaTransport, VerbmqTransport, type VerbmqTransportOptions } from 'verbmq';
import { describe, expect, onTestFinished, test } from 'vitest';
import { asAuto, onFast, pathIs, QUICK } from '../support/auto-pair.js';
import { failure } from '../support/expectations.js';
import { abortAfterTest } from '../support/pair.js';
import { onSimulatedDevice, resetForTest } from '../support/simulated-device.js';
import { until } from '../support/until.js';

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
    const [name] = await deviceNames();
    const rdma = { device: name!, localAddress: '127.0.0.1' };
    const listener = await make(rdma).listen('verbmq://127.0.0.1:0');
    listener.onConnection((connection) => void abortAfterTest(connection));
    const client = asAuto(abortAfterTest(await make(rdma).connect(listener.url)));
    expect((await onFast(client)).kind).toBe('rdma');
  });

  describe('a device that is there, where routes lead over another one,', () => {
    const OTHER = 'decoy0';
    const WORDS = `over the device simulated0, and only ${OTHER} is to be used`;

    async function scene(ofServer: { device?: string }) {
      resetForTest(device, 'rxe');
      device.set('decoy_devices', 1);
      expect(await deviceNames()).toContain(OTHER);
      const rdma = (options: { device?: string }): RdmaTransport => {
        const transport = new RdmaTransport({ ...options, libraries: device.libraries });
        onTestFinished(() => transport.close());
        return transport;
      };
      const listener = await rdma(ofServer).listen('rdma://127.0.0.1:0');
      return { listener, rdma };
    }

    test('is an error of connect with the reason other-device, and both sides let go', async () => {
      const { listener, rdma } = await scene({});
      listener.onConnection((connection) => void abortAfterTest(connection));
      const own = rdma({ device: OTHER });
      const error = await failure(own.connect(listener.url), 'ERR_VERBMQ_CONNECT_FAILED');
      expect(error).toMatchObject({ reason: 'other-device', message: expect.stringContaining(WORDS) });
      await until(() => own.stats().connections === 0);
      await until(() => device.live('qp') === 0); // the other side's too, which may have seen a connection or not
    });

    test('lets a listener refuse who comes, who is told why', async () => {
      const { listener, rdma } = await scene({ device: OTHER });
      const client = abortAfterTest(await rdma({}).connect(listener.url));
      expect((await client.closed).error).toMatchObject({
        code: 'ERR_VERBMQ_PEER_ABORTED',
        message: expect.stringContaining(WORDS),
      });
      expect(listener.stats()).toEqual({ accepted: 0, failed: 1 });
    });

    test('leaves a verbmq:// connection on TCP, which says why', async () => {
      await scene({});
      const listener = await make({}).listen('verbmq://127.0.0.1:0');
      listener.onConnection((connection) => void abortAfterTest(connection));
      const client = asAuto(abortAfterTest(await make({ device: OTHER }).connect(listener.url)));
      const path = await pathIs(client, ({ reason }) => reason === 'unreachable');
      expect(path).toMatchObject({ kind: 'tcp', explanation: expect.stringContaining(WORDS) });
    });
  });
});
