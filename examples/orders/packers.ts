/** A pool of packers: each order is packed by one of them, wherever they run. Start as many of these as you like. */
import { connect, isVerbmqError } from 'verbmq';
import { pubsub } from 'verbmq/pubsub';
import { queue } from 'verbmq/queue';
import type { Order } from './service.js';
import { url } from './url.js';

const connection = await connect(url);
const news = pubsub(connection);
const leaving = new AbortController();
process.once('SIGTERM', () => leaving.abort());

console.log('packing');

async function pack(order: Order): Promise<void> {
  console.log(`packed ${order.item} for order ${order.id}`);
  await news.publish(`orders.${order.item}.packed`, order);
}

// Who leaves in order ends what it has begun. What a lost packer had begun is given to another one.
try {
  await queue<Order>(connection, 'packing').work(pack, { concurrency: 4, signal: leaving.signal });
} catch (error) {
  if (!isVerbmqError(error) || error.reason !== 'released') throw error;
  console.log('the service shuts down');
}
await connection.close();
