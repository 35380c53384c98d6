// Every event of the connection manager in every state: each has an answer, and after it nothing is left.
import type { Address, CloseInfo, Connection, Listener } from '@verbmq/core';
import { describe, expect, test } from 'vitest';
import { failure, settled, turns } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { type Pair, transportForTest } from '../support/pair.js';
import {
  CmEvent,
  type CmState,
  onSimulatedDevice,
  type Personality,
  resetForTest,
  type SimulatedDevice,
  TESTED_PERSONALITIES,
} from '../support/simulated-device.js';
import { errno, expectNothingLeft, simulatedPair, simulatedSetUp } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

/** A request is an id of its own, so it can reach a listener only; connecting-faults.test.ts has it. */
type Event = Exclude<keyof typeof CmEvent, 'connectRequest'>;
const EVENTS = Object.keys(CmEvent).filter((event) => event !== 'connectRequest') as Event[];

/** What ends whatever it is about. */
const FATAL: readonly Event[] = [
  'addrError',
  'routeError',
  'connectError',
  'unreachable',
  'rejected',
  'disconnected',
  'deviceRemoval',
];

/** In a connection that is up, librdmacm makes an error of a second answer. */
const fatalWhenUp = [...FATAL, 'connectResponse'];

await onSimulatedDevice('rxe', (device) => {
  describe.each<Personality>(['rxe', 'siw'])('events of rdma_cm on a device like %s', (personality) => {
    // Where an attempt waits for an event that was lost, and what makes it go on.
    describe.each([
      { phase: 'its address', lost: 'addrResolved', state: 'address-resolved', goesOn: 'addrResolved' },
      { phase: 'its route', lost: 'routeResolved', state: 'route-resolved', goesOn: 'routeResolved' },
      { phase: 'its peer', lost: 'connectRequest', state: 'connecting', goesOn: undefined },
    ] as const)('an attempt that waits for $phase', ({ lost, state, goesOn }) => {
      test.each(EVENTS)('is told %s', async (event) => {
        resetForTest(device, personality);
        device.dropCmEvents(CmEvent[lost]);
        const attempt = new Attempt(device);
        await attempt.tell(event, state);
        // Without the peer's hello neither is an answer to it.
        const malformed = state === 'connecting' && (event === 'established' || event === 'connectResponse');
        if (FATAL.includes(event)) {
          const error = await failure(attempt.outcome, 'ERR_VERBMQ_CONNECT_FAILED');
          // Before its address is known an attempt has no device.
          if (event === 'deviceRemoval')
            expect(error.message).toMatch(/RDMA device( simulated\d)? was removed/);
        } else if (malformed) {
          await failure(attempt.outcome, 'ERR_VERBMQ_PROTOCOL', 'ERR_VERBMQ_CONNECT_FAILED');
        } else if (event === goesOn) {
          await attempt.outcome;
        } else {
          await turns();
          attempt.cancel();
          await failure(attempt.outcome, 'ERR_VERBMQ_CANCELLED');
        }
        await attempt.expectNothingLeft();
      });
    });

    describe('a connection that is open', () => {
      test.each(EVENTS)('is told %s', async (event) => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        await tellBoth(device, event);
        if (fatalWhenUp.includes(event)) {
          await expectLost(pair);
        } else {
          for (const [from, to] of [
            [pair.client, pair.server],
            [pair.server, pair.client],
          ] as const) {
            await from.send(numbered(7));
            expect((await take(to, 1)).map(numberOf)).toEqual([7]);
          }
        }
        await expectNothingLeft(device, pair);
      });
    });

    describe('a connection that is closing', () => {
      test.each(EVENTS)('is told %s', async (event) => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        device.hold('hardware');
        const closing = pair.client.close();
        await tellBoth(device, event);
        if (fatalWhenUp.includes(event)) {
          await expectLost(pair);
        } else {
          await turns();
          device.release('hardware');
          for (const info of await bothClosed(pair)) expect(info).toMatchObject({ graceful: true });
        }
        await closing;
        await expectNothingLeft(device, pair);
      });
    });

    // All at once, since a device that never flushes is waited for as long as the engine does.
    describe('a connection that is lost, and waits for its device', () => {
      test.each([
        ['what has no meaning any more', EVENTS.filter((event) => !fatalWhenUp.includes(event))],
        [
          'that it is lost',
          EVENTS.filter((event) => fatalWhenUp.includes(event) && event !== 'deviceRemoval'),
        ],
        ['that its device is gone', ['deviceRemoval'] as const],
      ])('is told %s', async (_, events) => {
        resetForTest(device, personality);
        device.set('flush_delay_us', -1);
        device.set('timewait_us', 3_600_000_000);
        const pair = await simulatedPair(device, { heartbeatIntervalMs: 0 });
        const before = EVENTS_OF_CONNECTING + 2;
        await tellBoth(device, 'disconnected');
        // Each side disconnects then, and is told when the other one has.
        await until(() => device.count('cm-events') >= before + 2);
        for (const event of events)
          expect(device.raiseCmEvent(CmEvent[event], -errno.ETIMEDOUT, 'disconnected')).toBe(2);
        await expectLost(pair);
        expect(device.count('flushed')).toBe(0);
        await expectNothingLeft(device, pair);
      });
    });

    describe('a listener', () => {
      test.each(EVENTS)('is told %s', async (event) => {
        resetForTest(device, personality);
        const pair = await simulatedPair(device);
        expect(device.raiseCmEvent(CmEvent[event], -errno.ETIMEDOUT, 'listening')).toBe(1);
        if (event === 'deviceRemoval') {
          await pair.listener.closed;
        } else {
          const accepted = nextAccepted(pair.listener);
          await pair.clientTransport.connect(pair.listener.url);
          await accepted;
        }
        await expectNothingLeft(device, pair);
      });
    });
  });

  // On iWARP the accepting side is connected as soon as it has answered.
  describe.each<Personality>(['rxe', 'mlx'])(
    'a side that has accepted on a device like %s',
    (personality) => {
      // Answers come to those who asked.
      test.each(EVENTS.filter((event) => event !== 'connectResponse'))('is told %s', async (event) => {
        resetForTest(device, personality);
        device.dropCmEvents(CmEvent.connectResponse);
        const attempt = new Attempt(device);
        await attempt.tell(event, 'accepted');
        if (FATAL.includes(event)) {
          await until(() => attempt.listener?.stats().failed === 1);
        } else {
          await turns();
          expect(attempt.listener?.stats()).toEqual({ accepted: 0, failed: 0 });
        }
        attempt.cancel();
        await settled(attempt.outcome);
        await attempt.expectNothingLeft();
      });
    },
  );

  describe.each<Personality>(TESTED_PERSONALITIES)(
    'a side that is connected and waits for the first frame on a device like %s',
    (personality) => {
      test.each(EVENTS)('is told %s', async (event) => {
        resetForTest(device, personality);
        device.hold('hardware');
        const attempt = new Attempt(device);
        const client = await attempt.outcome;
        await tellBoth(device, event);
        if (fatalWhenUp.includes(event)) {
          await until(() => attempt.listener?.stats().failed === 1);
          expect((await client.closed).error).toMatchObject({ code: 'ERR_VERBMQ_CONNECTION_LOST' });
        } else {
          await turns();
          expect(attempt.listener?.stats()).toEqual({ accepted: 0, failed: 0 });
          device.release('hardware');
          await until(() => attempt.listener?.stats().accepted === 1);
        }
        await attempt.expectNothingLeft();
      });
    },
  );
});

/** An attempt to connect, and the listener that it is for. */
class Attempt {
  readonly outcome: Promise<Connection>;
  listener: Listener | undefined;
  readonly #device: SimulatedDevice;
  readonly #controller = new AbortController();
  readonly #transports;

  constructor(device: SimulatedDevice) {
    this.#device = device;
    const setUp = simulatedSetUp(device);
    this.#transports = [transportForTest(setUp), transportForTest(setUp)] as const;
    this.outcome = this.#connect(setUp.listenAddress());
    this.outcome.catch(() => {}); // looked at when the event has come
  }

  async #connect(address: Address): Promise<Connection> {
    const [server, client] = this.#transports;
    this.listener = await server.listen(address);
    this.listener.onConnection(() => {});
    return client.connect(this.listener.url, { signal: this.#controller.signal });
  }

  /** Reports the event to the one id in this state, as soon as there is one. */
  async tell(event: Event, state: CmState): Promise<void> {
    await until(() => this.#device.raiseCmEvent(CmEvent[event], -errno.ETIMEDOUT, state) === 1);
  }

  cancel(): void {
    this.#controller.abort();
  }

  async expectNothingLeft(): Promise<void> {
    await Promise.all(this.#transports.map((transport) => transport.close()));
    await until(() => Object.keys(this.#device.leftOver()).length === 0);
    expect(this.#device.count('busy')).toBe(0);
  }
}

/** What the two sides of a connection are told until both are up: the address, the route, the request, two answers. */
const EVENTS_OF_CONNECTING = 5;

async function tellBoth(device: SimulatedDevice, event: Event): Promise<void> {
  // The first frame may overtake the last of them.
  await until(() => device.count('cm-events') >= EVENTS_OF_CONNECTING);
  expect(device.raiseCmEvent(CmEvent[event], -errno.ETIMEDOUT)).toBe(2);
}

function bothClosed({ client, server }: Pair): Promise<CloseInfo[]> {
  return Promise.all([client.closed, server.closed]);
}

async function expectLost(pair: Pair): Promise<void> {
  for (const { error } of await bothClosed(pair))
    expect(error).toMatchObject({ code: 'ERR_VERBMQ_CONNECTION_LOST' });
}

function nextAccepted(listener: Listener): Promise<unknown> {
  const before = listener.stats().accepted;
  return until(() => listener.stats().accepted > before);
}
