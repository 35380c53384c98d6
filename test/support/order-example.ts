import { expect } from 'vitest';
import { startExample, startService } from './example.js';

/** Runs the example of calls, work and events, each of its programs in a process of its own, and ends all of them in order. */
export async function orderExample(listenUrl: string): Promise<void> {
  const { service, url } = await startService('orders/service', listenUrl);
  const watcher = startExample('orders/watcher', url);
  const packers = [startExample('orders/packers', url), startExample('orders/packers', url)];
  expect(await watcher.line()).toBe('watching');
  for (const each of packers) expect(await each.line()).toBe('packing');

  const shop = startExample('orders/shop', url, ['tea', 'coffee', 'coffee', 'tea']);
  expect(await shop.rest()).toEqual([
    'tea is order 1',
    'coffee is order 2',
    'no coffee left',
    'tea is order 3',
  ]);
  expect(await shop.exit).toEqual([0, null]);

  const events: string[] = [];
  for (let i = 0; i < 6; i++) events.push(await watcher.line());
  expect(events.sort()).toEqual([
    'orders.coffee.packed 2',
    'orders.coffee.placed 2',
    'orders.tea.packed 1',
    'orders.tea.packed 3',
    'orders.tea.placed 1',
    'orders.tea.placed 3',
  ]);

  // A watcher and a packer leave in order by themselves, the others when the service does.
  watcher.terminate();
  expect(await watcher.exit).toEqual([0, null]);
  packers[0]?.terminate();
  expect(await packers[0]?.exit).toEqual([0, null]);
  service.terminate();
  expect(await service.exit).toEqual([0, null]);
  expect(await packers[1]?.exit).toEqual([0, null]);

  const packed = (await Promise.all(packers.map((each) => each.rest()))).flat();
  expect(packed.sort()).toEqual([
    'packed coffee for order 2',
    'packed tea for order 1',
    'packed tea for order 3',
    'the service shuts down',
  ]);
}
