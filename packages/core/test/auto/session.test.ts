import { expect, test } from 'vitest';
import { World } from './world.js';

test('a session goes on, however often the answer to a client that comes back is lost', () => {
  const world = new World(0, 5000, false);
  world.send('client', 10);
  world.send('server', 20);
  for (let n = 0; n < 40; n++) {
    world.notice('client', 0);
    world.resume();
    while (world.deliver('server', 0)); // its hello, for one
    world.lose('client', 0);
  }
  expect(world.heal()).toBe(true);
  expect(world.got).toEqual({ client: 1, server: 1 });
  const { client, server } = world.sessions;
  expect([client.flowing, server.flowing]).toEqual([true, true]);
  expect(client.epoch).toBe(server.epoch);
});
