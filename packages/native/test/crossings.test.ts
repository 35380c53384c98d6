// A message costs neither a call into the addon, save the one that posts those of a tick, nor a registration.
import { type Connection, formatAddress } from '@verbmq/core';
import { resolveConnectionOptions } from '@verbmq/core/transport-kit';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../../../test/support/simulated-device.js';
import { until } from '../../../test/support/until.js';
import type { Addon, NativeEngine } from '../src/binding.js';
import { connectOnce } from '../src/connect-attempt.js';
import { loadAddon } from '../src/load-addon.js';
import { resolveRdmaOptions } from '../src/options.js';
import { RdmaEngine } from '../src/rdma-engine.js';
import { RdmaListener } from '../src/rdma-listener.js';

const MESSAGES = 200;
const AT_ONCE = 20;

await onSimulatedDevice('rxe', (device) => {
  /** Two ends of one connection, on engines whose calls are written down. */
  async function watchedPair(calls: string[]): Promise<{ client: Connection; server: Connection }> {
    const options = resolveConnectionOptions({ heartbeatIntervalMs: 0 });
    const engines = [0, 1].map(() => {
      const engine = new RdmaEngine(watched(calls), resolveRdmaOptions({ libraries: device.libraries }));
      onTestFinished(() => engine.close());
      return engine;
    });
    const [engine, other] = engines as [RdmaEngine, RdmaEngine];
    const handle = engine.native.listen({ host: '127.0.0.1', port: 0, backlog: 1 });
    const address = engine.native.listenerAddress(handle);
    const accepted = new Promise<Connection>((opened) => {
      const url = formatAddress('rdma', address);
      new RdmaListener({
        kind: 'rdma',
        address,
        url,
        logger: options.logger,
        engine,
        handle,
        options,
        maxHandshakes: 1,
        opened,
      });
    });
    const client = await connectOnce({
      ...address,
      engine: other,
      localHost: undefined,
      timeoutMs: 3000,
      options,
      signal: new AbortController().signal,
      opened: () => {},
    });
    return { client, server: await accepted };
  }

  describe.each<Personality>(TESTED_PERSONALITIES)('leased messages over a device like %s', (personality) => {
    test.each([64, 4000, 60 * 1024])('of %i bytes', async (bytes) => {
      resetForTest(device, personality);
      const calls: string[] = [];
      const { client, server } = await watchedPair(calls);
      let arrived = 0;
      server.onMessage(({ data }) => {
        arrived += data[bytes - 1] === 7 ? 1 : 0;
      });
      const exchange = async (): Promise<void> => {
        const due = arrived + AT_ONCE;
        const leases = Array.from({ length: AT_ONCE }, () => client.allocate(bytes));
        for (const lease of leases) lease.data[bytes - 1] = 7;
        await Promise.all(leases.map((lease) => client.send(lease)));
        await until(() => arrived === due && client.stats().bytesBuffered === 0);
      };
      await exchange(); // the first ones may need memory
      expect(calls).toContain('connect');
      const registrations = device.calls('ibv_reg_mr');
      calls.length = 0;
      for (let n = 0; n < MESSAGES; n += AT_ONCE) await exchange();
      expect(new Set(calls)).toEqual(new Set(['flush']));
      expect(calls.length).toBeLessThan(MESSAGES / 4);
      expect(device.calls('ibv_reg_mr')).toBe(registrations);
      client.abort('the test is over');
      await Promise.all([client.closed, server.closed]);
    });
  });
});

/** The addon, with engines that write down which of their methods are called. */
function watched(calls: string[]): Addon {
  const { addon } = loadAddon();
  if (addon === undefined) throw new Error('the addon is not built');
  function watchedEngine(...init: ConstructorParameters<Addon['Engine']>): NativeEngine {
    return new Proxy(new (addon as Addon).Engine(...init), {
      get(engine, name) {
        const method = Reflect.get(engine, name);
        return (...given: unknown[]) => {
          calls.push(String(name));
          return method.apply(engine, given);
        };
      },
    });
  }
  // `new` answers with what a function returns.
  return { ...addon, Engine: watchedEngine as unknown as Addon['Engine'] };
}
