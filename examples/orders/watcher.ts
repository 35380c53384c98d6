/** Watches what becomes of orders. */
import { connect } from 'verbmq';
import { pubsub } from 'verbmq/pubsub';
import type { Order } from './service.js';
import { url } from './url.js';

const connection = await connect(url);
const events = pubsub(connection).subscribe<Order>('orders.*.*');
await events.ready;
console.log('watching');
process.once('SIGTERM', () => void events.return());

for await (const { topic, body } of events) console.log(`${topic} ${body.id}`);
await connection.close();
