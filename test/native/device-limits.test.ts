// Devices whose objects run out: one error that says what to do, at the side that met it, and nothing else is disturbed.
import { describe, expect, test } from 'vitest';
import { failure } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { nextConnection } from '../support/pair.js';
import {
  type ObjectKind,
  onSimulatedDevice,
  type Personality,
  resetForTest,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

/** With how many of each one side of a connection takes. */
const LIMITS: [setting: string, kind: ObjectKind, each: number][] = [
  ['max_qp', 'qp', 1],
  ['max_pd', 'pd', 1],
  ['max_mr', 'mr', 2],
  ['max_cq', 'cq', 1],
];

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(TESTED_PERSONALITIES)('a device like %s', (personality) => {
    test.each(LIMITS)('that has no more of what %s bounds', async (setting, kind, each) => {
      resetForTest(device, personality);
      device.set('max_cqe', 300); // so that each connection needs a completion queue
      const pair = await simulatedPair(device);
      const connect = () => pair.clientTransport.connect(pair.listener.url);
      const used = device.live(kind);
      const ids = device.live('cm-id');
      device.set(setting, used + each - 1);
      const { message } = await failure(connect(), 'ERR_VERBMQ_NO_BUFFERS');
      expect(message).toContain('close connections that are not needed');
      // The side that connects gets the last of them.
      device.set(setting, used + 2 * each - 1);
      expect((await failure(connect(), 'ERR_VERBMQ_OVERLOADED')).message).toContain(
        'no memory or queues left',
      );
      await until(() => device.live('cm-id') === ids); // nothing is left of it
      // A completion queue stays for as long as anything is connected.
      await until(() => device.live(kind) === (kind === 'cq' ? used + each : used));
      await pair.client.send(numbered(1));
      expect((await take(pair.server, 1)).map(numberOf)).toEqual([1]);

      device.set(setting, used + 2 * each);
      const accepted = nextConnection(pair.listener);
      const client = await connect();
      await client.send(numbered(2));
      expect((await take(await accepted, 1)).map(numberOf)).toEqual([2]);
      await expectNothingLeft(device, pair);
    });

    test('that may lock no more: memory counts once for each connection on which it is exposed', async () => {
      resetForTest(device, personality);
      const pair = await simulatedPair(device);
      const servers = [pair.server];
      while (servers.length < 4) {
        const accepted = nextConnection(pair.listener);
        await pair.clientTransport.connect(pair.listener.url);
        servers.push(await accepted);
      }
      const array = new Uint8Array(1024 * 1024);
      const used = device.live('pinned-bytes');
      device.set('memlock_bytes', used + 3.5 * array.byteLength);
      const exposures = [];
      for (const server of servers.slice(0, 3)) exposures.push(await server.expose(array, { read: true }));
      expect(device.live('pinned-bytes')).toBeGreaterThanOrEqual(used + 3 * array.byteLength);
      await failure(servers[3]!.expose(array, { read: true }), 'ERR_VERBMQ_NO_BUFFERS', 'ERR_VERBMQ_MEMLOCK');
      await exposures[0]!.revoke();
      await servers[3]!.expose(array, { read: true });
      await expectNothingLeft(device, pair);
    });
  });
});
