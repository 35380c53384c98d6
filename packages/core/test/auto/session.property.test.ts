import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SIDES, World } from './world.js';

/** How many orders of events are tried. `VERBMQ_SESSION_RUNS=100000` is the long run. */
const RUNS = Number(process.env.VERBMQ_SESSION_RUNS ?? 1500);

/** Where numbers begin: at 0, and short of where 32 bits end. */
const FIRST = [0, 2 ** 32 - 20, 2 ** 31 - 5];

/** What may happen, and how often next to the others. */
const EVENTS: readonly [weight: number, happen: (world: World, a: number, b: number) => void][] = [
  [8, (world, a, b) => world.send(SIDES[a % 2] as 'client', b % 200)],
  [14, (world, a, b) => void world.deliver(SIDES[a % 2] as 'client', b)],
  [4, (world, a) => world.read(SIDES[a % 2] as 'client')],
  [1, (world, a) => world.tell(SIDES[a % 2] as 'client')],
  [1, (world, a, b) => world.throttle(SIDES[a % 2] as 'client', b)],
  [1, (world, a, b) => world.lose(SIDES[a % 2] as 'client', b)],
  [2, (world, a, b) => world.notice(SIDES[a % 2] as 'client', b)],
  [3, (world) => world.connectFast()],
  [1, (world) => world.propose()],
  [2, (world) => world.resume()],
  [1, (world, _, b) => world.repeatSwitch(b)],
  [1, (world, a, b) => world.repeatFrame(SIDES[a % 2] as 'client', b)],
];

const event = fc.oneof(
  ...EVENTS.map(([weight, happen], index) => ({
    weight,
    arbitrary: fc.tuple(fc.constant(index), fc.nat(), fc.nat()).map(([at, a, b]) => ({ at, a, b, happen })),
  })),
);

describe('two sessions over paths that break', () => {
  test(`deliver everything exactly once and in order, and never stand still (${RUNS} runs)`, {
    timeout: Math.max(40_000, RUNS * 30),
  }, () => {
    const moves = { fast: 0, base: 0 };
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 200, size: 'max' }),
        fc.constantFrom(...FIRST),
        fc.constantFrom(1, 300, 5000),
        fc.boolean(),
        (events, first, windowBytes, requiresFast) => {
          const world = new World(first, windowBytes, requiresFast);
          for (const { a, b, happen } of events) happen(world, a, b);
          expect(world.heal()).toBe(true);
          world.connectFast();
          world.propose();
          expect(world.heal()).toBe(true);
          expect(world.got).toEqual({ client: world.sent.server, server: world.sent.client });
          const { client, server } = world.sessions;
          expect([client.flowing, server.flowing]).toEqual([true, true]);
          expect(client.path).toBe(server.path);
          if (requiresFast) expect(client.path).not.toBe(0);
          expect([client.keptBytes, server.keptBytes]).toEqual([0, 0]);
          expect([client.hasRoom, server.hasRoom]).toEqual([true, true]);
          moves[client.path === 0 ? 'base' : 'fast']++;
        },
      ),
      { numRuns: RUNS },
    );
    expect(moves.fast).toBeGreaterThan(0);
  });
});
