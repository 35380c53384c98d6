/** Places the orders that it was started with: `node shop.js tea tea coffee`. */
import { connect } from 'verbmq';
import { client, RemoteError } from 'verbmq/rpc';
import type { OrderService } from './service.js';
import { url } from './url.js';

await using connection = await connect(url);
const orders = client<OrderService>(connection);

for (const item of process.argv.slice(2)) {
  try {
    const { id } = await orders.place(item, { timeoutMs: 5_000 });
    console.log(`${item} is order ${id}`);
  } catch (error) {
    if (!(error instanceof RemoteError) || error.code !== 'SOLD_OUT') throw error;
    console.log(error.message);
  }
}
