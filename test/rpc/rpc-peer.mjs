/**
 * The other side of a call, in a process of its own that can be killed. `{ role: 'serve', peer, address }` listens and serves;
 * `{ role: 'call', peer, url }` connects and makes calls that never end.
 */
import { client, serve } from '@verbmq/core/rpc';
import { nextTask } from '../support/task.mjs';

const task = await nextTask();
const transport = new (await import(task.peer.module))[task.peer.name](task.peer.options);
const tell = (event, more = {}) => process.send({ event, ...more });

if (task.role === 'serve') {
  const listener = await transport.listen(task.address);
  serve(listener, {
    hang: () => {
      tell('started');
      return new Promise(() => {});
    },
    length: (body) => body.byteLength,
    make: (length) => new Uint8Array(length),
    async *endless() {
      for (;;) yield new Uint8Array(1000);
    },
    async swallow(source) {
      let count = 0;
      for await (const _ of source) if (++count === 10) tell('started');
    },
  });
  tell('listening', { url: listener.url });
} else {
  async function* endless() {
    for (;;) yield new Uint8Array(1000);
  }
  const api = client(await transport.connect(task.url));
  const stream = api.endless.stream();
  await stream.next();
  void api.hang();
  void api.swallow(endless());
  void api.length(new Uint8Array(50_000_000));
}
