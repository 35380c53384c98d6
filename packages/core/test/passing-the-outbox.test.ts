// What a layer upon a connection sends by ways of its own: `trySendBehind`, `trySendBehindWords` and rooms, and what it takes back.
import { expect, test } from 'vitest';
import { Connection } from '../src/contract/connection.js';
import { NOT_TAKEN } from '../src/contract/connection-hooks.js';
import { resolveConnectionOptions } from '../src/contract/options.js';
import type { OutgoingRoom } from '../src/contract/outgoing-room.js';
import { WaitingSend } from '../src/contract/send-queue.js';

const capabilities = {
  oneSided: 'none',
  atomics: 'none',
  largeMessages: 'native',
  zeroCopySend: 'emulated',
} as const;
const address = { host: '127.0.0.1', port: 1 };
const room: OutgoingRoom = { bytes: Buffer.alloc(100), words: new Int32Array(4), token: 7 };
const data = Uint8Array.of(8, 9);

/** A connection whose transport takes what `hasRoom` says. */
class Fake extends Connection {
  hasRoom = true;
  /** Beyond it there is no room for a message. */
  longest = 1000;
  closeSaid = false;
  onSubmit = (): void => {};
  readonly sent: number[][] = [];

  constructor() {
    super({
      kind: 'fake',
      direction: 'out',
      options: resolveConnectionOptions(),
      maxMessageBytes: 1000,
      capabilities,
      localAddress: address,
      remoteAddress: address,
    });
  }

  protected override _submit(bytes: Uint8Array): boolean {
    this.onSubmit();
    const isTaken = this.hasRoom && bytes.length <= this.longest;
    if (isTaken) this.sent.push([...bytes]);
    return isTaken;
  }
  protected override _reserve(): OutgoingRoom {
    return room;
  }
  protected override _submitReserved({ bytes }: OutgoingRoom, length: number): boolean {
    return this._submit(bytes.subarray(0, length));
  }
  protected override _bufferedBytes(): number {
    return 0;
  }
  protected override _sendClose(): void {
    this.closeSaid = true;
  }
  protected override _teardown(): void {}
  protected override _kill(): void {
    this._finished();
  }
  override releaseMessage(): void {}
  override retainMessage(): undefined {}

  /** The transport has room, and has not said so. */
  roomComes(): void {
    this.hasRoom = true;
  }
  tell(): void {
    this._roomAvailable();
  }
}

const head = { bytes: Uint8Array.of(1, 2, 3, 4), words: new Int32Array(4) };
/** Each with whether the connection counts what is sent like this. */
const ways: [string, (connection: Connection) => boolean, 0 | 1][] = [
  ['behind bytes', (connection) => connection.trySendBehind(head, 2, data), 1],
  [
    'behind words',
    (connection) => connection.trySendBehindWords(0x04030201, 5, -1, 0, data) !== NOT_TAKEN,
    0,
  ],
  ['in a room', (connection) => connection.trySendReserved(room, 3), 1],
];

test.each(ways)('a message %s goes straight to the transport', (_, send, counted) => {
  const connection = new Fake();
  expect(send(connection)).toBe(true);
  const bytes = connection.sent[0]?.length as number;
  expect(connection.stats()).toMatchObject({ messagesSent: counted, bytesSent: counted * bytes });
  expect(connection.stats().backpressureEvents).toBe(0);
});

test('a header stands before its data', () => {
  const connection = new Fake();
  for (const [, send] of ways.slice(0, 2)) send(connection);
  expect(connection.sent).toEqual([
    [1, 2, 8, 9],
    [1, 2, 3, 4, 5, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 8, 9],
  ]);
});

test.each(ways)('a message %s overtakes nothing that waits', async (_, send, counted) => {
  const connection = new Fake();
  connection.hasRoom = false;
  expect(send(connection)).toBe(false);
  const waiting = connection.send(Uint8Array.of(1));
  connection.roomComes();
  expect(send(connection)).toBe(false);
  expect(connection.reserve()).toBeUndefined();
  // The first try, the send that waits, and the second try.
  expect(connection.stats()).toMatchObject({ messagesSent: 0, backpressureEvents: 1 + 2 * counted });

  connection.tell();
  await waiting;
  expect(connection.reserve()).toBe(room);
  expect(send(connection)).toBe(true);
  expect(connection.sent[0]).toEqual([1]);
});

test('neither words nor a room leave on a connection that has ended', () => {
  const connection = new Fake();
  connection.abort();
  for (const [, send] of ways.slice(1)) expect(send(connection)).toBe(false);
  expect(connection.sent).toEqual([]);
});

function wait(connection: Connection, ...bytes: number[]): WaitingSend {
  const waiting = connection.sendOrWait(Uint8Array.from(bytes));
  if (!(waiting instanceof WaitingSend)) throw new Error('this was to wait');
  return waiting;
}

test('what waits can be taken back, as long as nothing of it has left', async () => {
  const connection = new Fake();
  connection.hasRoom = false;
  const [one, two, three] = [wait(connection, 1, 1), wait(connection, 2, 2), wait(connection, 3)];
  expect(connection.withdraw(two)).toBe(true);
  await two.sent;
  expect(connection.withdraw(two)).toBe(false);
  expect(connection.stats()).toMatchObject({ sendsWaiting: 2, bytesWaiting: 3 });
  connection.roomComes();
  connection.tell();
  await Promise.all([one.sent, three.sent]);
  expect(connection.sent).toEqual([[1, 1], [3]]);
  expect(connection.withdraw(one)).toBe(false);
  expect(connection.stats()).toMatchObject({ messagesSent: 2, sendsWaiting: 0, bytesWaiting: 0 });
});

test('what stands behind what was taken back leaves when there is room for it, and that alone', async () => {
  const connection = new Fake();
  connection.longest = 1;
  const [one, two, three] = [wait(connection, 1, 1), wait(connection, 2), wait(connection, 3)];
  connection.withdraw(one);
  connection.withdraw(two);
  await three.sent;
  expect(connection.sent).toEqual([[3]]);
  expect(connection.stats()).toMatchObject({ messagesSent: 1, sendsWaiting: 0 });
});

test('drain() and close() wait for nothing that was taken back', async () => {
  const connection = new Fake();
  connection.hasRoom = false;
  const waiting = wait(connection, 1);
  const drained = connection.drain();
  void connection.close();
  expect(connection.closeSaid).toBe(false);
  connection.withdraw(waiting);
  await drained;
  expect(connection.closeSaid).toBe(true);
  connection.abort();
});

test('what is just being given to the transport is not taken back', async () => {
  const connection = new Fake();
  connection.hasRoom = false;
  const waiting = wait(connection, 1);
  connection.roomComes();
  let withdrawn: boolean | undefined;
  connection.onSubmit = () => {
    withdrawn = connection.withdraw(waiting);
  };
  connection.tell();
  await waiting.sent;
  expect(withdrawn).toBe(false);
  expect(connection.sent).toEqual([[1]]);
});

test('what waits fails with the connection, and cannot be taken back any more', async () => {
  const connection = new Fake();
  connection.hasRoom = false;
  const waiting = wait(connection, 1);
  connection.abort();
  await expect(waiting.sent).rejects.toMatchObject({ code: 'ERR_VERBMQ_ABORTED' });
  expect(connection.withdraw(waiting)).toBe(false);
  expect(() => connection.sendOrWait(data)).toThrow(expect.objectContaining({ code: 'ERR_VERBMQ_CLOSED' }));
});
