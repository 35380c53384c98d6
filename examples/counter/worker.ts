/** Takes as many numbers as its argument says, each of which nobody else gets. */
import { connect } from 'verbmq';

const connection = await connect(process.env.VERBMQ_URL ?? 'tcp://127.0.0.1:7000');
const { value: message } = await connection.messages().next();
if (message === undefined) throw new Error('the owner has gone');
const counter = connection.attach(Buffer.from(message.data).toString());

// All at once: each addition answers with the value before it, whoever else adds.
const numbers = await Promise.all(
  Array.from({ length: Number(process.argv[2] ?? 10) }, () => counter.fetchAdd(0, 1n)),
);
console.log(numbers.join(' '));
await connection.close();
