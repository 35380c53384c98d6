import { connect } from 'verbmq';

const connection = await connect(process.env.VERBMQ_URL ?? 'tcp://127.0.0.1:7000');

for (const word of ['whole', 'messages,', 'in', 'order']) {
  await connection.send(Buffer.from(word));
}

let left = 4;
for await (const answer of connection) {
  console.log(`${connection.kind}: ${Buffer.from(answer.data)}`);
  if (--left === 0) break;
}
await connection.close();
