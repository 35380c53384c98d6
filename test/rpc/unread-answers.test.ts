import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { client, rpcStats } from '@verbmq/core/rpc';
import { describe, expect, test } from 'vitest';
import { turns } from '../support/expectations.js';
import { fill, take } from '../support/messages.js';
import { connectPair } from '../support/pair.js';
import { memorySetUp } from '../support/transports/memory.js';
import { type Attacked, attacked } from './attacked.js';
import {
  CALL,
  CANCEL,
  CREDIT,
  DEADLINE,
  END,
  ERROR,
  GIB2,
  ITEM,
  named,
  number,
  PARTIAL,
  PIECE,
  PIECE_TO_CALLER,
  RAW,
  RESULT,
} from './frames.js';
import { until } from './support.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

describe('while answers wait because the peer reads nothing', () => {
  /** As `attacked`, and no frame of the server leaves before `answers` reads. */
  async function unread(options = {}): Promise<Attacked & { answers(count: number): Promise<number[][]> }> {
    const all = await attacked(options);
    let junk = await fill(all.far, () => new Uint8Array(30_000));
    while (all.far.trySend(new Uint8Array(3))) junk++;
    let skipped = false;
    return {
      ...all,
      async answers(count) {
        const frames = await take(all.raw, skipped ? count : junk + count);
        if (!skipped) frames.splice(0, junk);
        skipped = true;
        return frames.map((frame) => [...frame]);
      },
    };
  }

  test('what still comes for a call that was refused is nobody’s business', async () => {
    const { far, send, answers } = await unread();
    send(...named(1, 'echo', PARTIAL | RAW, ...GIB2));
    await until(() => rpcStats(far).runningCalls === 1); // its error waits
    for (const frame of [
      [PIECE, 0, 1, 1],
      [ITEM, 0, 1, 1],
      [END, 0, 1],
      [CREDIT, 0, 1, 5],
      [CANCEL, 0, 1],
    ])
      send(...frame);
    send(...named(2, 'echo', 0, 42));
    const [refusal, answer] = await answers(2);
    expect(Buffer.from(refusal as number[]).toString()).toContain('ERR_VERBMQ_MESSAGE_TOO_LARGE');
    expect(answer).toEqual([RESULT, 0, 2, 42]);
    expect(far.state).toBe('open');
  });

  test('an answer that has not left by its deadline is called off, and its caller told', async () => {
    const { raw, far } = await attacked();
    raw.trySend(
      Uint8Array.from(named(1, 'echo', PARTIAL | RAW | DEADLINE, ...number(200), ...number(32 * 64 * 1024))),
    );
    const piece = new Uint8Array(64 * 1024 + 3);
    piece.set([PIECE, 0, 1]);
    for (let i = 0; i < 32; i++) await raw.send(piece);
    await until(() => rpcStats(far).runningCalls === 0);
    let pieces = 0;
    let frame: Uint8Array | undefined;
    for (;;) {
      [frame] = await take(raw, 1);
      if (frame?.[0] === ERROR) break;
      if (frame?.[0] === PIECE_TO_CALLER) pieces++;
    }
    expect(Buffer.from(frame).toString()).toContain('ERR_VERBMQ_RPC_DEADLINE');
    expect(pieces).toBeLessThan(32);
  });

  test('a body that was refused in its middle takes no memory again', async () => {
    const { raw, far, server, answers } = await unread({ maxBodyBytes: 2 * 1024 * 1024 });
    const announce = (id: number): void =>
      void raw.trySend(Uint8Array.from(named(id, 'echo', PARTIAL | RAW, ...number(2 * 1024 * 1024))));
    for (let id = 1; id <= 8; id++) announce(id); // each is given 1 MiB at first
    const piece = new Uint8Array(64 * 1024 + 3);
    piece.set([PIECE, 0, 1]);
    for (let i = 0; i < 20; i++) await raw.send(piece); // the seventeenth finds no memory
    for (let id = 2; id <= 8; id++) raw.trySend(Uint8Array.from([CANCEL, 0, id]));
    await until(() => server.stats().running === 1);
    for (let id = 11; id <= 19; id++) announce(id);
    await until(() => rpcStats(far).runningCalls === 10);
    const refusals = (await answers(2)).map((frame) => [frame[2], Buffer.from(frame).toString()]);
    expect(refusals).toEqual([
      [1, expect.stringContaining('ERR_VERBMQ_OVERLOADED')],
      [19, expect.stringContaining('ERR_VERBMQ_OVERLOADED')],
    ]);
    expect(server.stats()).toMatchObject({ running: 8, failed: 2 });
  });

  test('they are counted with about the memory that they take', async () => {
    const { far, send } = await unread();
    const memory = async (): Promise<number> => {
      await turns();
      collectGarbage();
      return process.memoryUsage().heapUsed;
    };
    const before = await memory();
    for (let id = 1; id <= 20_000; id++) {
      send(CALL, 0, ...number(id), 99); // which there is not
      if (id % 100 === 0) await turns(1);
    }
    const { backlogBytes } = rpcStats(far);
    expect(backlogBytes).toBeGreaterThan(20_000 * 64);
    const taken = (await memory()) - before;
    expect(taken).toBeLessThan(1.5 * backlogBytes);
    expect(taken).toBeGreaterThan(0.5 * backlogBytes);
  });

  test('refusals that are not read end the connection when nothing leaves for a time', async () => {
    const { raw, far } = await attacked({ maxBacklogBytes: 10_000, backlogTimeoutMs: 20 });
    for (let id = 1; raw.state === 'open'; id++) {
      await raw.send(Uint8Array.from([CALL, 0, ...number(id), 99])).catch(() => {});
      if (id % 100 === 0) await turns(1);
    }
    expect((await far.closed).error?.message).toContain('the answers are not read');
  });

  test('refusals that are not read end the connection when they are too many', async () => {
    const { client: raw, server: far } = await connectPair(memorySetUp());
    client(far); // serves nothing, and refuses all
    let most = 0;
    for (let id = 1; raw.state === 'open'; id++) {
      await raw.send(Uint8Array.from([CALL, 0, ...number(id), 99])).catch(() => {});
      if (id % 1000 === 0) most = Math.max(most, rpcStats(far).backlogBytes);
    }
    expect((await far.closed).error?.message).toContain('what it asks for is not read');
    expect(most).toBeLessThan(66 * 1024 * 1024);
  });
});
