import { describe, expect, it } from 'vitest';
import type { CallClient, EchoClient, PushClient, ReadClient } from '../../bench/contestants/contestant.js';
import { Load } from '../../bench/run/load.js';
import { checkAnswer, checkParts, createMessage, mark, markParts } from '../../bench/run/marking.js';

/** A client whose server is a function, which answers in a later turn of the event loop. */
function clientOf(load: Load, server: (message: Uint8Array, number: number) => Uint8Array): EchoClient {
  let number = 0;
  return {
    send(data) {
      const answer = server(new Uint8Array(data), number++);
      setImmediate(() => load.handlers.onAnswer(answer));
    },
    async close() {},
  };
}

const echo = (message: Uint8Array) => message;
const brief = { bytes: 64, durationMs: 20 };

describe('Load', () => {
  it.each([1, 8])('counts the answers, %i in flight', async (inFlight) => {
    const load = new Load();
    let sent = 0;
    const client = clientOf(load, (message) => {
      sent++;
      return message;
    });
    const result = await load.run(client, { ...brief, inFlight });
    expect(result.messages).toBe(sent);
    expect(result.messages).toBeGreaterThan(inFlight);
    expect(result.elapsedMs).toBeGreaterThanOrEqual(19);
    expect(result.roundTrip === undefined).toBe(inFlight > 1);
  });

  it('can run again on the same connection', async () => {
    const load = new Load();
    const client = clientOf(load, echo);
    await load.run(client, { ...brief, inFlight: 8 });
    expect((await load.run(client, { ...brief, inFlight: 1 })).messages).toBeGreaterThan(0);
  });

  it.each([1, 8])('fails on an answer of the wrong length, %i in flight', async (inFlight) => {
    const load = new Load();
    const client = clientOf(load, (message, number) => (number === 20 ? message.subarray(1) : message));
    await expect(load.run(client, { ...brief, inFlight, durationMs: 10_000 })).rejects.toThrow(
      'answer 20 has 63 bytes instead of 64',
    );
  });

  it('fails on an answer to another message', async () => {
    const load = new Load();
    const first = createMessage(64);
    mark(first, 0);
    const client = clientOf(load, () => first);
    await expect(load.run(client, { ...brief, inFlight: 8 })).rejects.toThrow(
      'answer 1 does not have the content of message 1',
    );
  });

  it('fails with the error of the connection', async () => {
    const load = new Load();
    const client: EchoClient = {
      send: () => setImmediate(() => load.handlers.onError(new Error('the peer is gone'))),
      async close() {},
    };
    await expect(load.run(client, { ...brief, inFlight: 8 })).rejects.toThrow('the peer is gone');
  });
});

/** A client whose calls are answered by a function, each in a later turn, and the last of a turn first. */
function callerOf(server: (message: Uint8Array, number: number) => Uint8Array): CallClient {
  let number = 0;
  let waiting: (() => void)[] = [];
  return {
    call(data) {
      const answer = server(new Uint8Array(data), number++);
      if (waiting.length === 0) {
        setImmediate(() => {
          for (const resolve of waiting.splice(0).reverse()) resolve();
        });
      }
      return new Promise((resolve) => {
        waiting.push(() => resolve(answer));
      });
    },
    async close() {
      waiting = [];
    },
  };
}

describe('a load of calls', () => {
  it.each([1, 8])('counts the answers, in whatever order they come, %i in flight', async (inFlight) => {
    let asked = 0;
    const client = callerOf((message) => {
      asked++;
      return message;
    });
    const result = await new Load().run(client, { ...brief, inFlight });
    expect(result.messages).toBe(asked);
    expect(result.messages).toBeGreaterThan(inFlight);
    expect(result.roundTrip === undefined).toBe(inFlight > 1);
  });

  it('fails on the answer to another call', async () => {
    const first = createMessage(64);
    mark(first, 0);
    const client = callerOf((message, number) => (number === 20 ? first : message));
    await expect(new Load().run(client, { ...brief, inFlight: 8 })).rejects.toThrow(
      'answer 20 does not have the content of message 20',
    );
  });

  it('fails with the error of a call', async () => {
    const client = callerOf(() => {
      throw new Error('the peer is gone');
    });
    await expect(new Load().run(client, { ...brief, inFlight: 8 })).rejects.toThrow('the peer is gone');
  });
});

describe('a load of messages one way', () => {
  /** A client whose server takes four messages at a time, and then needs a turn of the event loop. */
  function pusher(confirm: (pushed: number) => number): PushClient & { readonly sizes: Set<number> } {
    let pushed = 0;
    const sizes = new Set<number>();
    return {
      sizes,
      push(number, bytes) {
        expect(number).toBe(pushed++);
        sizes.add(bytes);
        return pushed % 4 === 0 ? new Promise((resolve) => setImmediate(resolve)) : undefined;
      },
      async confirm() {
        return confirm(pushed);
      },
      async close() {},
    };
  }

  it('counts what the server has counted', async () => {
    let counted = 0;
    const client = pusher((pushed) => {
      counted = pushed;
      return pushed;
    });
    const { messages, elapsedMs } = await new Load().run(client, { ...brief, inFlight: 8 });
    expect(messages).toBe(counted);
    expect(messages).toBeGreaterThan(4);
    expect(elapsedMs).toBeGreaterThanOrEqual(19);
    expect([...client.sizes]).toEqual([64]);
  });

  it('fails when the server counted others', async () => {
    const client = pusher((pushed) => pushed - 1);
    await expect(new Load().run(client, { ...brief, inFlight: 8 })).rejects.toThrow(
      /of (\d+) messages the server counted/,
    );
  });
});

describe('a load of reads', () => {
  /** A client that reads block after block of a memory, in a later turn of the event loop. */
  function reader(markOf: (block: number) => number): ReadClient & { underWay: number; most: number } {
    let next = 0;
    return {
      underWay: 0,
      most: 0,
      async read(target) {
        const block = next++;
        this.most = Math.max(this.most, ++this.underWay);
        await new Promise((resolve) => setImmediate(resolve));
        this.underWay--;
        markParts(target, markOf(block));
        return block;
      },
      async close() {},
    };
  }

  it('reads so many at a time, and counts them', async () => {
    const client = reader((block) => block);
    const { messages } = await new Load().run(client, { ...brief, bytes: 65_536, inFlight: 4 });
    expect(messages).toBeGreaterThan(4);
    expect(client.most).toBe(4);
    expect(client.underWay).toBe(0);
  });

  it('fails when another block was read', async () => {
    const client = reader((block) => (block === 20 ? 19 : block));
    await expect(
      new Load().run(client, { ...brief, bytes: 65_536, inFlight: 4, durationMs: 10_000 }),
    ).rejects.toThrow('answer 20 does not have the content of message 20');
  });
});

describe('markParts and checkParts', () => {
  it('see a piece of another message in a long one', () => {
    const message = new Uint8Array(1024 * 1024);
    markParts(message, 7);
    expect(() => checkParts(message, 7)).not.toThrow();
    const other = new Uint8Array(1024 * 1024);
    markParts(other, 8);
    message.set(other.subarray(512 * 1024, 768 * 1024), 512 * 1024);
    expect(() => checkParts(message, 7)).toThrow(/content/);
  });

  it('take a short message as one part', () => {
    const message = new Uint8Array(64);
    markParts(message, 7);
    expect(() => checkAnswer(message, 64, 7)).not.toThrow();
    expect(() => checkParts(message, 7)).not.toThrow();
  });
});

describe('mark and checkAnswer', () => {
  it('write what JSON carries as it is', () => {
    const message = createMessage(64);
    mark(message, 2 ** 32 - 1);
    expect(JSON.stringify(Buffer.from(message).toString('latin1'))).toHaveLength(66);
  });

  it.each([0, 1, 255, 256, 65_535, 2 ** 31, 2 ** 32 - 1])('know message %i again', (number) => {
    const message = createMessage(64);
    mark(message, number);
    expect(() => checkAnswer(message, 64, number)).not.toThrow();
    expect(() => checkAnswer(message, 64, (number + 1) % 2 ** 32)).toThrow();
  });

  it('see a message whose end is missing', () => {
    const message = createMessage(64);
    mark(message, 7);
    message[63] = 0;
    expect(() => checkAnswer(message, 64, 7)).toThrow(/content/);
  });
});
