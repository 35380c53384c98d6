/**
 * The other side of topics, in a process of its own that can be killed. `{ role: 'broker', peer, address }` listens and passes
 * events on; the others connect to `url`: `subscriber` subscribes twice and reads the one, `publisher` publishes without end.
 */
import { PubsubBroker, pubsub } from '@verbmq/core/pubsub';
import { serve } from '@verbmq/core/rpc';
import { nextTask } from '../support/task.mjs';

const task = await nextTask();
const transport = new (await import(task.peer.module))[task.peer.name](task.peer.options);
const tell = (event, more = {}) => process.send({ event, ...more });

if (task.role === 'broker') {
  const listener = await transport.listen(task.address);
  serve(listener, new PubsubBroker().service);
  tell('listening', { url: listener.url });
} else {
  const topic = pubsub(await transport.connect(task.url, task.peer.connectOptions));
  if (task.role === 'subscriber') {
    const unread = topic.subscribe('#', { whenSlow: task.whenSlow, maxQueued: 20 });
    await unread.ready;
    const events = topic.subscribe('a');
    await events.ready;
    tell('subscribed');
    await events.next();
    tell('read');
    for await (const _ of events);
  } else {
    for (let n = 0; ; n++) await topic.publish('a', n);
  }
}
