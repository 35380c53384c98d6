// A peer in a process of its own, to be killed, stopped, or left to exit. What it does comes by IPC (PeerTask in
// peer-process.ts), and so does what has happened go. It loads the module that is its argument, and waits for its task.
import { MemoryNetwork } from '@verbmq/core/memory-transport';
import { nextTask } from './task.mjs';

const task = await nextTask();
const { preparation } = task.peer;
if (preparation !== undefined) (await import(preparation.module)).prepare(preparation.argument);
const { [task.peer.name]: TransportClass } = await import(task.peer.module);
const transport = new TransportClass({
  ...task.peer.options,
  ...task.options,
  ...(task.peer.name === 'MemoryTransport' && { network: new MemoryNetwork() }),
});

const tell = (event, fields = {}) => process.send({ event, ...fields });

if (task.role === 'alone') await alone();
else if (task.role === 'listen') {
  const listener = await transport.listen(task.address, task.peer.listenOptions);
  listener.onConnection((connection) => void live(connection));
  tell('listening', { url: listener.url });
} else await live(await transport.connect(task.url, task.peer.connectOptions));

/** What the peer does with a connection, as the task says. */
async function live(connection) {
  connection.closed.then((info) => tell('closed', { graceful: info.graceful, code: info.error?.code }));
  if (task.whenLost) {
    const detach = connection.onPath(({ flowing }) => {
      if (flowing) return;
      detach();
      void endWhenLost(connection);
    });
  }
  if (task.exposes) {
    const memory = await connection.expose(task.exposes, { read: true, write: true, atomic: task.atomics });
    await connection.send(Buffer.from(memory.descriptor));
  }
  if (task.echoes) connection.onMessage((message) => void connection.send(message.data));
  else if (task.reads) connection.onMessage(() => {});
  if (task.blocksMs) {
    connection.onMessage((message) => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, task.blocksMs);
      connection.send(message.data).catch(() => {});
    });
  }
  tell('connected');
  if (task.floods) await flood(connection);
}

/** Its server is gone, and the session is being resumed. When that is over, nothing may keep this process alive. */
async function endWhenLost(connection) {
  const { error } = await (task.whenLost === 'closes' ? connection.close() : connection.closed);
  tell('done', { code: error?.code });
  process.disconnect();
}

async function flood(connection) {
  const message = new Uint8Array(task.floods);
  try {
    for (let n = 0; ; n++) {
      new DataView(message.buffer).setUint32(0, n);
      await connection.send(message);
    }
  } catch (error) {
    tell('flood-ended', { code: error.code });
  }
}

/** Both ends here: open, talk, close. After that nothing may keep this process alive. */
async function alone() {
  const listener = await transport.listen(task.address, task.peer.listenOptions);
  listener.onConnection((connection) => {
    connection.onMessage((message) => void connection.send(message.data));
  });
  const connection = await transport.connect(listener.url, task.peer.connectOptions);
  await connection.send(new Uint8Array(100_000 < connection.maxMessageBytes ? 100_000 : 10));
  for await (const _ of connection) break;
  if (task.ends === 'connection') {
    await connection.close();
    await listener.close();
  } else if (task.ends === 'abort') {
    connection.abort('to be gone');
    await connection.closed;
    await listener.close();
  } else {
    await transport.close();
  }
  tell('done');
  process.disconnect();
}
