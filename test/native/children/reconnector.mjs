// Listens on every address. On each message of its parent it does what that says, and tells what came of it:
//
//   talk     connects to itself and lets messages go round: `talking`, and later `closed` for each of both ends
//   connect  only tries to connect: `refused`, with the code
//   close    closes what is open
//
// Its argument is the address to connect to.
import { RdmaTransport } from '@verbmq/native';

const host = process.argv[2];
const transport = new RdmaTransport();
const listener = await transport.listen({ host: '0.0.0.0', port: 0 });
const { port } = listener.address;
const tell = (event, fields = {}) => process.send({ event, ...fields });
let open = [];
let received = 0;

function talkOn(connection) {
  open.push(connection);
  connection.onMessage((message) => {
    if (++received === 200) tell('talking', { device: connection.device });
    connection.send(message.data).catch(() => {}); // the end of the connection tells why
  });
  void connection.closed.then(({ error }) => tell('closed', { code: error?.code, message: error?.message }));
}

const commands = {
  async talk() {
    open = [];
    received = 0;
    const client = await transport.connect({ host, port });
    talkOn(client);
    for (let n = 0; n < 16; n++) await client.send(new Uint8Array(100));
  },
  async connect() {
    await transport.connect({ host, port }).catch(({ code }) => tell('refused', { code }));
  },
  async close() {
    await Promise.all(open.map((connection) => connection.close()));
  },
};

listener.onConnection(talkOn);
process.on('message', (command) => void commands[command]());
tell('ready');
