/** The order service: takes orders as calls, gives them to the packers as work, and tells the world of them as events. */
import { listen } from 'verbmq';
import { PubsubBroker } from 'verbmq/pubsub';
import { QueueBroker } from 'verbmq/queue';
import { serve } from 'verbmq/rpc';
import { url } from './url.js';

export interface Order {
  readonly id: number;
  readonly item: string;
}
export type OrderService = typeof orderService;

const stock = new Map([
  ['tea', 3],
  ['coffee', 1],
]);
const work = new QueueBroker({ maxAttempts: 5 });
const events = new PubsubBroker();
let lastId = 0;

const orderService = {
  async place(item: string): Promise<Order> {
    const left = stock.get(item) ?? 0;
    if (left === 0) throw Object.assign(new Error(`no ${item} left`), { code: 'SOLD_OUT' });
    stock.set(item, left - 1);
    const order = { id: ++lastId, item };
    events.publish(`orders.${item}.placed`, order);
    await work.push('packing', order);
    return order;
  },
};

const listener = await listen(url);
const server = serve(listener, { ...orderService, ...work.service, ...events.service });
console.log(`listening on ${listener.url}`);

process.once('SIGTERM', () => {
  // Packers and watchers would never leave by themselves.
  work.releaseConsumers();
  events.releaseSubscribers();
  void server.close(5_000);
});
