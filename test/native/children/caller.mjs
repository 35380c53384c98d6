// Connects to the URL in its first argument and keeps sixteen messages going round until it is killed.
import { RdmaTransport } from '@verbmq/native';

const connection = await new RdmaTransport().connect(process.argv[2]);
connection.onMessage((message) => {
  connection.send(message.data).catch(() => {});
});
for (let n = 0; n < 16; n++) await connection.send(new Uint8Array(1000));
