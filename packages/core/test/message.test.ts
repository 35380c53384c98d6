import { describe, expect, test, vi } from 'vitest';
import { DebugMessageOwner, Message, type MessageOwner } from '../src/contract/message.js';
import { OutgoingLease } from '../src/contract/outgoing-lease.js';
import { isReused } from '../src/contract/reused-memory.js';

const RELEASED = expect.objectContaining({ code: 'ERR_VERBMQ_LEASE_RELEASED' });

function makeOwner(moved?: Uint8Array) {
  return {
    releaseMessage: vi.fn<MessageOwner['releaseMessage']>(),
    retainMessage: vi.fn<MessageOwner['retainMessage']>(() => moved),
  };
}

describe('a message', () => {
  test('is released exactly once, with its token and length', () => {
    const owner = makeOwner();
    const message = new Message(new Uint8Array(5), owner, 42);
    message.release();
    message.release();
    message[Symbol.dispose]();
    expect(owner.releaseMessage.mock.calls).toEqual([[42, 5]]);
    expect(() => message.data).toThrow(RELEASED);
  });

  test('that is kept where it lies is released later', () => {
    const owner = makeOwner();
    const message = new Message(new Uint8Array(5), owner, 1).retain().retain();
    expect(owner.retainMessage).toHaveBeenCalledTimes(1);
    expect(owner.releaseMessage).not.toHaveBeenCalled();
    message.release();
    expect(owner.releaseMessage).toHaveBeenCalledTimes(1);
  });

  test('that is moved when it is kept shows the new bytes, and needs no release of the old', () => {
    const moved = Uint8Array.of(1, 2, 3);
    const owner = makeOwner(moved);
    const message = new Message(new Uint8Array(3), owner, 1).retain();
    expect(message.data).toBe(moved);
    message.release();
    expect(owner.releaseMessage).not.toHaveBeenCalled();
    expect(() => message.data).toThrow(RELEASED);
  });
});

describe('a message in debug mode', () => {
  test('has memory of its own, which is gone after the release', () => {
    const owner = makeOwner();
    const slot = Uint8Array.of(1, 2, 3);
    const message = new DebugMessageOwner(owner).wrap(slot, 9);
    const view = message.data;
    expect([...view]).toEqual([1, 2, 3]);
    expect(view.buffer).not.toBe(slot.buffer);
    expect(owner.releaseMessage).not.toHaveBeenCalled();
    message.release();
    expect(view.byteLength).toBe(0);
    expect(owner.releaseMessage.mock.calls).toEqual([[9, 3]]);
  });

  test('that is kept holds the transport only where it holds it without debug mode too', () => {
    const holding = makeOwner();
    const held = new DebugMessageOwner(holding).wrap(Uint8Array.of(1), 3).retain();
    held.release();
    expect(holding.releaseMessage.mock.calls).toEqual([[3, 1]]);
    const moving = makeOwner(Uint8Array.of(1));
    const moved = new DebugMessageOwner(moving).wrap(Uint8Array.of(1), 3).retain();
    const view = moved.data;
    moved.release();
    expect(moving.releaseMessage).not.toHaveBeenCalled();
    expect(view.byteLength).toBe(0);
  });

  test('of 0 bytes works', () => {
    const owner = makeOwner();
    const message = new DebugMessageOwner(owner).wrap(new Uint8Array(0), 1);
    message.release();
    expect(owner.releaseMessage.mock.calls).toEqual([[1, 0]]);
  });

  test('lies in memory of which sends know that it may vanish', () => {
    const message = new DebugMessageOwner(makeOwner()).wrap(Uint8Array.of(1), 1);
    expect(isReused(message.data)).toBe(true);
    expect(isReused(Uint8Array.of(1))).toBe(false);
  });
});

describe('an outgoing lease', () => {
  test('is given back exactly once', () => {
    const freeOutgoing = vi.fn();
    const lease = new OutgoingLease(new Uint8Array(4), { freeOutgoing }, 1);
    lease.release();
    lease.release();
    expect(freeOutgoing.mock.calls).toEqual([[lease]]);
  });

  test('that was sent is not given back by its sender', () => {
    const freeOutgoing = vi.fn();
    const lease = new OutgoingLease(new Uint8Array(4), { freeOutgoing }, 1);
    lease.markTaken();
    lease.release();
    expect(freeOutgoing).not.toHaveBeenCalled();
    expect(() => lease.data).toThrow(RELEASED);
  });

  test('is shortened, and never lengthened again', () => {
    const lease = new OutgoingLease(Uint8Array.of(1, 2, 3, 4), { freeOutgoing: () => {} }, 1);
    expect([...lease.shrink(4).shrink(2).data]).toEqual([1, 2]);
    expect(() => lease.shrink(3)).toThrow(RangeError);
    expect(() => lease.shrink('1' as never)).toThrow(TypeError);
  });
});
