import { AutoConnection, connect, type PathInfo } from 'verbmq';

/** Counts with the service, one number at a time, for so long; longer if it is still being decided which way the data takes. */
const COUNT_MS = 500;

const connection = await connect(process.env.VERBMQ_URL ?? 'verbmq://127.0.0.1:7000');
if (!(connection instanceof AutoConnection)) throw new Error('this example is about verbmq:// addresses');

let decided = show(connection.path);
connection.onPath((path) => {
  decided = show(path);
});

const start = performance.now();
let count = 0;
const bytes = Buffer.alloc(4);
await connection.send(bytes);
for await (const { data } of connection) {
  const number = Buffer.from(data).readUInt32BE();
  if (number !== count) throw new Error(`${number} came where ${count} was due`);
  count++;
  if (decided && performance.now() - start > COUNT_MS) break;
  bytes.writeUInt32BE(count);
  await connection.send(bytes);
}
console.log('counted without a gap');
await connection.close();

/** Answers whether it is the last word, as long as nothing breaks. */
function show({ kind, fast, flowing, reason }: PathInfo): boolean {
  if (!flowing) return false;
  console.log(fast ? `on ${kind}` : `on ${kind}: ${reason}`);
  return reason !== 'negotiating';
}
