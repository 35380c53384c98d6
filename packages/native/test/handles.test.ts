// Handles: what happens when each of them names something, when they name something else, and what is given back that nobody waits for.
import type { ResolvedConnectionOptions } from '@verbmq/core/transport-kit';
import { describe, expect, test, vi } from 'vitest';
import { turns } from '../../../test/support/expectations.js';
import {
  onSimulatedDevice,
  type Personality,
  resetForTest,
  type SimulatedDevice,
} from '../../../test/support/simulated-device.js';
import { until } from '../../../test/support/until.js';
import { EventKind, type Handle, RejectReason } from '../src/binding.js';
import { connectOnce } from '../src/connect-attempt.js';
import type { RdmaEngine } from '../src/rdma-engine.js';
import { engineForTest, newSlab, RawEnd, RawListener, rawAttempt } from './raw-ends.js';

const MOST_HANDLES = 65_536;
/** Below those that are given to whoever asks for none. */
const PORTS = { first: 1024, count: 30_000 };

const HOUR_US = 3_600_000_000;

/**
 * Takes the personality for one test. What earlier tests have left to other threads is over: over iWARP it tells of its end, and what is
 * held back is counted here.
 */
async function begin(device: SimulatedDevice, personality: Personality): Promise<void> {
  resetForTest(device, personality);
  await until(() => device.live('cm-id') === 0);
}

/** Makes `count` attempts whose requests have left, and holds back whatever tells of them. */
async function requests(
  device: SimulatedDevice,
  port: number,
  count: number,
): Promise<ReturnType<typeof rawAttempt>[]> {
  device.hold('cm-events');
  const attempts = Array.from({ length: count }, () => rawAttempt(device, port));
  // Their addresses are found, then their routes.
  for (let step = 0; step < 2; step++) {
    await until(() => device.held('cm-events') === count);
    device.release('cm-events');
    device.hold('cm-events');
  }
  await until(() => device.held('cm-events') === count);
  return attempts;
}

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(['rxe', 'siw'])('handles on a device like %s', (personality) => {
    test('a request for which none is left is refused, and leaves nothing', async () => {
      await begin(device, personality);
      const engine = engineForTest(device);
      const listener = new RawListener(engine, (request) =>
        engine.native.reject(request, RejectReason.refused),
      );
      const others: Handle[] = [];
      while (others.length < MOST_HANDLES - 1) {
        const host = `127.0.0.${2 + Math.floor(others.length / PORTS.count)}`;
        const port = PORTS.first + (others.length % PORTS.count);
        others.push(engine.native.listen({ host, port, backlog: 1 }));
      }
      expect(() => engine.native.listen({ host: '127.0.0.1', port: 0, backlog: 1 })).toThrow('65,536');

      const refused = rawAttempt(device, listener.port);
      await refused.saw(EventKind.closed);
      expect(refused.failure?.message).toContain('no memory or queues left');
      expect(listener.events).toEqual([[EventKind.refused, RejectReason.noResources, 0]]);
      await until(() => device.live('cm-id') === MOST_HANDLES);

      // There is room again, and the listener hears of the next one.
      engine.native.closeListener(others.pop() as Handle);
      const heard = rawAttempt(device, listener.port);
      await heard.saw(EventKind.closed);
      expect(heard.failure?.message).toContain('refused');
      expect(listener.events.at(-1)?.[0]).toBe(EventKind.incoming);
    });

    test('why a request ended is not kept for somebody who never heard of it', async () => {
      await begin(device, personality);
      const engine = engineForTest(device);
      const listener = new RawListener(engine, (request) =>
        engine.native.reject(request, RejectReason.refused),
      );
      const [attempt] = await requests(device, listener.port, 1);
      // It is given up when its request is on its way already, and the listener hears of both at once. Over iWARP the kernel waits for the
      // answer first, and has the attempt's own end to tell of besides.
      attempt?.engine.close();
      await until(() => device.held('cm-events') >= 2);
      device.release('cm-events');
      await until(() => listener.events.length === 1);
      await until(() => device.live('cm-id') === 1);
      const [, request] = listener.events[0] as (typeof listener.events)[0];
      expect(engine.native.takeFailure(request)).toBeUndefined();
    });

    test('why an attempt ended is not kept for somebody who gave it up in the same turn', async () => {
      await begin(device, personality);
      const requested: Handle[] = [];
      const others = engineForTest(device);
      const { port } = new RawListener(others, (request) => requested.push(request));
      const engine = engineForTest(device);
      const registered = vi.spyOn(engine, 'register');
      const target = { host: '127.0.0.1', port, timeoutMs: 3000 };
      const given = new AbortController();
      const reason = new Error('given up');
      const first = engine.native.connect({ ...target, ...newSlab(engine).memory });
      engine.register({ handle: first, messageArrived: () => {}, eventArrived: () => given.abort(reason) });
      await until(() => requested.length === 1);
      const attempt = connectOnce({
        engine,
        ...target,
        localHost: undefined,
        options: { maxMessageBytes: 1024 } as ResolvedConnectionOptions,
        signal: given.signal,
        opened: () => {},
      });
      const handle = registered.mock.lastCall?.[0].handle as Handle;
      await until(() => requested.length === 2);
      // The engine hears of both refusals at once, and tells of the first one first.
      device.hold('cm-events');
      for (const request of requested) others.native.reject(request, RejectReason.refused);
      await until(() => device.held('cm-events') === 2);
      device.release('cm-events');
      await expect(attempt).rejects.toBe(reason);
      expect(handle).not.toBe(first);
      expect(engine.native.takeFailure(handle)).toBeUndefined();
    });

    test('requests that come at once are not all taken in one turn', async () => {
      await begin(device, personality);
      const count = 100;
      let inThisTurn = 0;
      let mostInOne = 0;
      const engine = engineForTest(device);
      const listener = new RawListener(engine, (request) => {
        if (inThisTurn++ === 0) {
          setImmediate(() => {
            inThisTurn = 0;
          });
        }
        mostInOne = Math.max(mostInOne, inThisTurn);
        engine.native.reject(request, RejectReason.refused);
      });
      const attempts = await requests(device, listener.port, count);
      device.release('cm-events');
      await Promise.all(attempts.map((each) => each.saw(EventKind.closed)));
      expect(listener.events.length).toBe(count);
      expect(mostInOne).toBeLessThanOrEqual(16);
    });

    test('a request whose listener is closed when it is about to hear of it is refused', async () => {
      await begin(device, personality);
      const engine = engineForTest(device);
      const listener = new RawListener(engine, (request) => {
        listener.close();
        engine.native.reject(request, RejectReason.refused);
      });
      const attempts = await requests(device, listener.port, 2);
      device.release('cm-events');
      for (const attempt of attempts) {
        await attempt.saw(EventKind.closed);
        expect(attempt.failure).toMatchObject({ reason: 'rejected' });
      }
      await until(() => device.live('cm-id') === 0);
    });
  });

  describe('a handle that names another one by now', () => {
    /** An attempt that was given up while another thread still waits for its peer, and the handle that it had. */
    async function givenUp(engine: RdmaEngine, port: number): Promise<Handle> {
      const calls = device.calls('rdma_connect');
      const slab = newSlab(engine);
      const target = { host: '127.0.0.1', port, timeoutMs: 3000 };
      const attempt = new RawEnd(engine, slab, engine.native.connect({ ...target, ...slab.memory }));
      await until(() => device.calls('rdma_connect') > calls);
      engine.native.destroy(attempt.handle);
      await attempt.saw(EventKind.closed);
      engine.unregister(attempt);
      return attempt.handle;
    }

    /** The handles of a place come round after 32,767 of them. */
    function listenAs(engine: RdmaEngine, wanted: Handle, host: string): void {
      for (;;) {
        const handle = engine.native.listen({ host, port: 0, backlog: 1 });
        if (handle === wanted) return;
        engine.native.closeListener(handle);
      }
    }

    test('is not taken from it when the call of an attempt that had it comes back', async () => {
      await begin(device, 'siw');
      device.set('connect_blocks_us', HOUR_US);
      const others = engineForTest(device);
      const { port } = new RawListener(others, (request) =>
        others.native.reject(request, RejectReason.refused),
      );
      const engine = engineForTest(device);
      const handle = await givenUp(engine, port);
      listenAs(engine, handle, '127.0.0.1');
      device.set('connect_blocks_us', 0);
      await until(() => engine.native.pendingCalls() === 0);
      expect(engine.native.listenerAddress(handle).port).not.toBe(0);
    });

    test('is not taken from it when the device goes on which an attempt that had it was', async () => {
      await begin(device, 'siw');
      device.set('connect_blocks_us', HOUR_US);
      const { port } = new RawListener(engineForTest(device));
      const engine = engineForTest(device);
      const handle = await givenUp(engine, port);
      // It belongs to no device.
      listenAs(engine, handle, '0.0.0.0');
      device.remove();
      await turns();
      expect(engine.native.listenerAddress(handle).port).not.toBe(0);
      device.restore();
      device.set('connect_blocks_us', 0);
      await until(() => engine.native.pendingCalls() === 0);
    });
  });
});
