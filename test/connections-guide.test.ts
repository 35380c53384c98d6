import { connect, isVerbmqError, listen, type Message } from 'verbmq';
import { expect, test } from 'vitest';
import { expectShown } from './support/guide.js';

// What docs/connections.md shows is run here, line by line, imports too: the last test compares the two.

const printed: unknown[] = [];
const console = { log: (value: unknown) => void printed.push(value) };

test('the guide to connections', async () => {
  const listener = await listen('tcp://127.0.0.1:0'); // port 0: the system chooses, and listener.url tells
  const connection = await connect(listener.url, { timeoutMs: 5_000 });
  const { value: peer } = await listener[Symbol.asyncIterator]().next();
  if (peer === undefined) throw new Error('the listener was closed');

  await connection.send(Buffer.from('waits for room'));
  console.log(connection.trySend(Buffer.from('only if there is room'))); // never waits; false: nothing was done

  const lease = connection.allocate(64);
  const { written } = new TextEncoder().encodeInto('written where it leaves from', lease.data);
  await connection.send(lease.shrink(written)); // or lease.release(), to send nothing

  const kept: Message[] = [];
  for await (const message of peer) {
    kept.push(message.retain());
    if (kept.length === 3) break; // leaving the loop detaches it; the connection lives on
  }
  for (const message of kept) {
    console.log(Buffer.from(message.data).toString());
    message.release();
  }

  const counter = new BigUint64Array(1);
  const exposed = await peer.expose(new Uint8Array(counter.buffer), { read: true, atomic: true });

  const remote = connection.attach(exposed.descriptor);
  console.log(await remote.fetchAdd(0, 2n)); // the value before
  const now = new BigUint64Array(1);
  await remote.read(0, new Uint8Array(now.buffer)); // or a length: then it resolves with an array of its own
  console.log(now[0]);
  await exposed.revoke(); // access ends here, or with the connection

  console.log(await connection.close());
  console.log((await peer.closed).graceful);
  try {
    await connection.send(Buffer.from('too late'));
  } catch (error) {
    if (isVerbmqError(error, 'ERR_VERBMQ_CLOSED')) console.log(error.retryable);
  }
  await listener.close();

  expect(printed).toEqual([
    true,
    'waits for room',
    'only if there is room',
    'written where it leaves from',
    0n,
    2n,
    { graceful: true, initiator: 'local' },
    true,
    false,
  ]);
});

test('shows what is run here, in the same order, and nothing else', () => {
  expect(expectShown('docs/connections.md', import.meta.url, 7)).toEqual([]);
});
