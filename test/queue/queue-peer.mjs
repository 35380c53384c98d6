/**
 * The other side of a queue, in a process of its own that can be killed. `{ role: 'broker', peer, address, … }` listens and
 * holds the queues; the others connect to `url`: `consumer` takes jobs and judges one of them, `pusher` pushes without end.
 */
import { QueueBroker, queue } from '@verbmq/core/queue';
import { serve } from '@verbmq/core/rpc';
import { nextTask } from '../support/task.mjs';

const task = await nextTask();
const transport = new (await import(task.peer.module))[task.peer.name](task.peer.options);
const tell = (event, more = {}) => process.send({ event, ...more });

if (task.role === 'broker') {
  const broker = new QueueBroker(task.broker);
  const listener = await transport.listen(task.address);
  serve(listener, broker.service);
  tell('listening', { url: listener.url });
} else {
  const connection = await transport.connect(task.url, task.peer.connectOptions);
  const jobs = queue(connection, 'jobs');
  if (task.role === 'consumer') {
    const bodies = [];
    for await (const job of jobs.consume({ prefetch: 4 })) {
      bodies.push(job.body);
      if (job.body === 1) job.acknowledge();
      if (bodies.length === 5) tell('holds', { bodies });
    }
  } else {
    for (let n = 0; ; n++) await jobs.push(n);
  }
}
