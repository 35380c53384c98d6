import { expect, test } from 'vitest';
import { VerbmqError } from '../src/contract/errors.js';
import { Inbox } from '../src/contract/inbox.js';
import { Message, type MessageOwner } from '../src/contract/message.js';

/** An inbox, and the tokens of the messages whose leases have ended. */
function makeInbox() {
  const released: number[] = [];
  const owner: MessageOwner = {
    releaseMessage: (token) => void released.push(token),
    retainMessage: () => undefined,
  };
  const inbox = new Inbox(() => {});
  const push = (...tokens: number[]): void => {
    for (const token of tokens) inbox.push(new Message(Uint8Array.of(token), owner, token));
  };
  return { inbox, push, released };
}

const LOST = new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', 'lost');
const microtasks = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('with a handler and nothing waiting a message is handled at once and released', () => {
  const { inbox, push, released } = makeInbox();
  const handled: number[] = [];
  inbox.attachHandler((message) => {
    handled.push(message.data[0]!);
    expect(released).not.toContain(message.data[0]);
  });
  push(1, 2);
  expect(handled).toEqual([1, 2]);
  expect(released).toEqual([1, 2]);
});

test('messages that come between the attaching and the handling of older ones do not overtake them', async () => {
  const { inbox, push } = makeInbox();
  const handled: number[] = [];
  push(1, 2);
  inbox.attachHandler((message) => void handled.push(message.data[0]!));
  push(3);
  expect(handled).toEqual([]);
  await microtasks();
  push(4);
  expect(handled).toEqual([1, 2, 3, 4]);
});

test('a retained message is not released by the return of its handler', () => {
  const { inbox, push, released } = makeInbox();
  const kept: Message[] = [];
  inbox.attachHandler((message) => void kept.push(message.retain()));
  push(1);
  expect(released).toEqual([]);
  kept[0]?.release();
  expect(released).toEqual([1]);
});

test('a handler that pauses gets nothing more until it resumes', async () => {
  const { inbox, push } = makeInbox();
  const handled: number[] = [];
  inbox.attachHandler((message) => {
    handled.push(message.data[0]!);
    if (message.data[0] === 1) inbox.pause();
  });
  push(1, 2, 3);
  expect(handled).toEqual([1]);
  expect(inbox.length).toBe(2);
  inbox.resume();
  await microtasks();
  expect(handled).toEqual([1, 2, 3]);
});

test('a handler that is exchanged within a batch gets the rest of it', async () => {
  const { inbox, push } = makeInbox();
  const handled: string[] = [];
  push(1, 2, 3);
  const detach = inbox.attachHandler((message) => {
    handled.push(`first ${message.data[0]}`);
    detach();
    inbox.attachHandler((next) => void handled.push(`second ${next.data[0]}`));
  });
  await microtasks();
  expect(handled).toEqual(['first 1', 'second 2', 'second 3']);
});

test('several calls of next that wait are answered in order', async () => {
  const { inbox, push } = makeInbox();
  const iterator = inbox.attachIterator();
  const first = iterator.next();
  const second = iterator.next();
  push(1);
  expect((await first).value?.data[0]).toBe(1);
  push(2);
  expect((await second).value?.data[0]).toBe(2);
});

test.each([
  ['before they come', false],
  ['when they are there', true],
])(
  'messages that were asked for together, %s, live until one is asked for after that',
  async (_, waiting) => {
    const { inbox, push, released } = makeInbox();
    const iterator = inbox.attachIterator();
    if (waiting) push(1, 2, 3);
    const calls = [iterator.next(), iterator.next(), iterator.next()];
    if (!waiting) push(1, 2, 3);
    const messages = (await Promise.all(calls)).map(({ value }) => value as Message);
    await microtasks();
    expect(messages.map((message) => message.data[0])).toEqual([1, 2, 3]);
    expect(released).toEqual([]);
    const next = iterator.next();
    expect(released).toEqual([1, 2, 3]);
    push(4);
    expect((await next).value?.data[0]).toBe(4);
    await iterator.return?.();
    expect(released).toEqual([1, 2, 3, 4]);
  },
);

test('who asks for one after the other keeps no copies; of those asked for together none occupies the transport', async () => {
  const kept: number[] = [];
  const released: number[] = [];
  const owner: MessageOwner = {
    releaseMessage: (token) => void released.push(token),
    retainMessage: (token, data) => {
      kept.push(token);
      return data.slice();
    },
  };
  const inbox = new Inbox(() => {});
  const push = (token: number): void => inbox.push(new Message(Uint8Array.of(token), owner, token));
  const iterator = inbox.attachIterator();
  for (const n of [1, 2, 3]) {
    const next = iterator.next();
    push(n);
    expect((await next).value?.data[0]).toBe(n);
  }
  expect(kept).toEqual([]);

  push(4);
  const calls = [iterator.next(), iterator.next(), iterator.next()];
  push(5);
  push(6);
  const messages = (await Promise.all(calls)).map(({ value }) => value as Message);
  expect(messages.map(({ data }) => data[0])).toEqual([4, 5, 6]);
  expect(kept).toEqual([4, 5, 6]);
  expect(messages.map(({ retained }) => retained)).toEqual([false, false, false]);
  const first = messages[0]?.retain();
  await microtasks();
  void iterator.next();
  expect(first?.data[0]).toBe(4);
  expect(() => messages[1]?.data).toThrow(expect.objectContaining({ code: 'ERR_VERBMQ_LEASE_RELEASED' }));
  expect(kept).toEqual([4, 5, 6]);
  expect(released).toEqual([1, 2, 3]);
});

test('of several loops over one iterator each sees its messages, and all are released', async () => {
  const { inbox, push, released } = makeInbox();
  const iterator = inbox.attachIterator();
  const seen: number[] = [];
  const loop = async (): Promise<void> => {
    for await (const message of iterator) seen.push(message.data[0]!);
  };
  const loops = [loop(), loop(), loop()];
  for (let n = 0; n < 30; n += 3) {
    push(n, n + 1, n + 2);
    await microtasks();
  }
  inbox.finish(undefined, false);
  await Promise.all(loops);
  await microtasks();
  expect(seen.sort((one, other) => one - other)).toEqual(Array.from({ length: 30 }, (_, n) => n));
  expect(released.length).toBe(30);
});

test('what was handed out when the iteration is left is released', async () => {
  const { inbox, push, released } = makeInbox();
  const iterator = inbox.attachIterator();
  const calls = [iterator.next(), iterator.next()];
  push(1, 2);
  await iterator.return?.();
  await microtasks();
  expect(released).toEqual([1, 2]);
  expect((await Promise.all(calls)).map(({ done }) => done)).toEqual([false, false]);
});

test('an iterator gets what waited, and then the end', async () => {
  const { inbox, push } = makeInbox();
  push(1);
  inbox.finish(undefined, false);
  const iterator = inbox.attachIterator();
  expect((await iterator.next()).value?.data[0]).toBe(1);
  expect(await iterator.next()).toEqual({ done: true, value: undefined });
});

test('an error comes once, after what had arrived, and to one caller', async () => {
  const { inbox, push } = makeInbox();
  const iterator = inbox.attachIterator();
  push(1);
  inbox.finish(LOST, false);
  expect((await iterator.next()).value?.data[0]).toBe(1);
  const [one, other] = [iterator.next(), iterator.next()];
  await expect(one).rejects.toBe(LOST);
  expect(await other).toEqual({ done: true, value: undefined });
});

test('the first end counts', async () => {
  const { inbox } = makeInbox();
  inbox.finish(undefined, false);
  inbox.finish(LOST, false);
  expect(await inbox.attachIterator().next()).toEqual({ done: true, value: undefined });
});

test('dropping what waits releases it', () => {
  const { inbox, push, released } = makeInbox();
  push(1, 2);
  inbox.finish(LOST, true);
  expect(released).toEqual([1, 2]);
  expect(inbox.length).toBe(0);
});

test('after discardUnread messages are dropped while nobody receives, and kept while somebody does', async () => {
  const { inbox, push, released } = makeInbox();
  push(1);
  inbox.discardUnread();
  push(2);
  expect(released).toEqual([1, 2]);
  const iterator = inbox.attachIterator();
  push(3);
  expect((await iterator.next()).value?.data[0]).toBe(3);
  push(4);
  await iterator.return?.();
  expect(released).toEqual([1, 2, 3, 4]);
});

test('after discardUnread a paused handler that is detached lets go of what it was to get', () => {
  const { inbox, push, released } = makeInbox();
  const detach = inbox.attachHandler(() => {});
  inbox.pause();
  push(1);
  inbox.discardUnread();
  expect(released).toEqual([]);
  detach();
  expect(released).toEqual([1]);
});

test('a long queue keeps its order while it grows and shrinks', () => {
  const { inbox, push } = makeInbox();
  let pushed = 0;
  let shifted = 0;
  for (let round = 0; round < 5000; round++) {
    push(pushed++ % 256, pushed++ % 256);
    expect(inbox.shift()?.data[0]).toBe(shifted++ % 256);
  }
  while (inbox.length > 0) expect(inbox.shift()?.data[0]).toBe(shifted++ % 256);
  expect(shifted).toBe(pushed);
});
