import { describe, expect, test } from 'vitest';
import { giveFrame, takeFrame } from '../../src/auto/frame-memory.js';
import { Path } from '../../src/auto/path.js';
import type { Connection } from '../../src/contract/connection.js';

const BYTES = 100_000;

/** A path over a connection whose sends end as `sent` does. */
function pathOver(sent: Promise<void>): Path {
  const below = {
    state: 'open',
    ending: new Promise(() => {}),
    onMessage: () => () => {},
    receiveDirectly: () => {},
    greeted: () => {},
    stats: () => ({ sendsWaiting: 0 }),
    send: () => sent,
    abort: () => {},
  };
  return new Path(0, below as unknown as Connection, {
    arrived: () => {},
    arrivedAt: () => {},
    longArrived: () => {},
    room: () => {},
    ended: () => {},
  });
}

/** Whether the memory of a frame is used again when whoever kept it is done with it, and its send has ended. */
async function isUsedAgain(sent: Promise<void>): Promise<boolean> {
  const frame = takeFrame(BYTES);
  pathOver(sent).write(frame);
  giveFrame(frame, BYTES);
  expect(takeFrame(BYTES).buffer).not.toBe(frame.buffer);
  await sent.catch(() => {});
  await new Promise(setImmediate);
  return takeFrame(BYTES).buffer === frame.buffer;
}

describe('the memory of a long frame', () => {
  test('is used again when it was sent', async () => {
    expect(await isUsedAgain(Promise.resolve())).toBe(true);
  });

  test('is not when it was not, for the system may still read it', async () => {
    expect(await isUsedAgain(Promise.reject(new Error('the connection was lost')))).toBe(false);
  });
});
