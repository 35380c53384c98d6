/** Reads the table of prices, also while its owner is out. Over TCP the owner's code has to answer, and that is too late. */
import { connect } from 'verbmq';
import { TableReader } from './table.js';

const connection = await connect(process.env.VERBMQ_URL ?? 'tcp://127.0.0.1:7000');
const messages = connection.messages();

const prices = new TableReader(connection.attach(await said()));
const [tea, coffee] = await prices.getAll(['tea', 'coffee']);
console.log(`tea costs ${tea}, coffee ${coffee}`);
console.log(`milk costs ${(await prices.get('milk')) ?? 'nothing, there is none'}`);

await connection.send(Buffer.from('2000'));
await said(); // out
let reads = 0;
let isBack = false;
const back = said().then(() => {
  isBack = true;
});
for (;;) {
  await prices.get('tea');
  if (isBack) break;
  reads++;
}
await back;
console.log(`${connection.kind}: ${reads} reads while the owner was out`);
console.log(`tea costs ${await prices.get('tea')}`);
await connection.close();

/** What the owner says next. */
async function said(): Promise<string> {
  const { value: message, done } = await messages.next();
  if (done) throw new Error('the owner has gone');
  return Buffer.from(message.data).toString();
}
