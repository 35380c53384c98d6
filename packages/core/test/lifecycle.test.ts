import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { VerbmqError } from '../src/contract/errors.js';
import { Lifecycle } from '../src/contract/lifecycle.js';

const LOST = new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', 'lost');

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function make() {
  const hooks = {
    busy: vi.fn(() => false),
    over: vi.fn(),
    sendClose: vi.fn(),
    teardown: vi.fn(),
    kill: vi.fn(),
    ended: vi.fn(),
  };
  return { hooks, lifecycle: new Lifecycle(1000, hooks) };
}

test('whatever the hooks throw, those who wait for the end are told', async () => {
  const { hooks, lifecycle } = make();
  const failing = () => {
    throw new Error('a hook');
  };
  hooks.kill.mockImplementation(failing);
  hooks.ended.mockImplementation(failing);
  expect(() => lifecycle.fail(LOST, 'remote', undefined)).toThrow('a hook');
  expect(await lifecycle.ending).toMatchObject({ error: LOST });
  expect(() => lifecycle.finished()).toThrow('a hook');
  expect(await lifecycle.closed).toMatchObject({ error: LOST });
});

describe('an orderly end', () => {
  test('that this side begins sends close, waits for the peer, tears down, and names this side', async () => {
    const { hooks, lifecycle } = make();
    lifecycle.beginClose('local');
    expect(lifecycle.state).toBe('closing');
    expect(hooks.sendClose).toHaveBeenCalledTimes(1);
    expect(hooks.teardown).not.toHaveBeenCalled();
    lifecycle.peerClosed();
    expect(hooks.teardown).toHaveBeenCalledTimes(1);
    expect(lifecycle.state).toBe('closing');
    lifecycle.finished();
    expect(await lifecycle.closed).toEqual({ graceful: true, initiator: 'local' });
    expect(hooks.ended).toHaveBeenCalledTimes(1);
    expect(hooks.kill).not.toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
  });

  test('stays one when all is delivered, whatever happens until everything is given back', async () => {
    const { hooks, lifecycle } = make();
    lifecycle.beginClose('local');
    lifecycle.peerClosed();
    lifecycle.delivered();
    expect(await lifecycle.ending).toEqual({ graceful: true, initiator: 'local' });
    vi.advanceTimersByTime(10_000);
    expect(lifecycle.fail(LOST, 'remote', undefined)).toBe(false);
    expect(hooks.kill).not.toHaveBeenCalled();
    expect(lifecycle.state).toBe('closing');
    lifecycle.finished();
    expect(await lifecycle.closed).toEqual({ graceful: true, initiator: 'local' });
    expect(hooks.ended).toHaveBeenCalledTimes(1);
  });

  test('that the peer begins tears down once, and names the peer', async () => {
    const { hooks, lifecycle } = make();
    lifecycle.peerClosed();
    lifecycle.progressed();
    expect(hooks.sendClose).toHaveBeenCalledTimes(1);
    expect(hooks.teardown).toHaveBeenCalledTimes(1);
    lifecycle.finished();
    expect(await lifecycle.closed).toEqual({ graceful: true, initiator: 'remote' });
  });

  test('sends close only when nothing is left to be sent', () => {
    const { hooks, lifecycle } = make();
    hooks.busy.mockReturnValue(true);
    lifecycle.beginClose('local');
    lifecycle.progressed();
    lifecycle.peerClosed();
    expect(hooks.sendClose).not.toHaveBeenCalled();
    expect(hooks.teardown).not.toHaveBeenCalled();
    hooks.busy.mockReturnValue(false);
    lifecycle.progressed();
    lifecycle.progressed();
    expect(hooks.sendClose).toHaveBeenCalledTimes(1);
    expect(hooks.teardown).toHaveBeenCalledTimes(1);
  });

  test('that takes too long becomes a failure, of whoever began it', () => {
    for (const by of ['local', 'remote'] as const) {
      const { hooks, lifecycle } = make();
      hooks.busy.mockReturnValue(true);
      lifecycle.beginClose(by);
      vi.advanceTimersByTime(999);
      expect(hooks.kill).not.toHaveBeenCalled();
      vi.advanceTimersByTime(1);
      expect(hooks.kill).toHaveBeenCalledExactlyOnceWith(
        expect.objectContaining({ code: 'ERR_VERBMQ_CLOSE_TIMEOUT' }),
        expect.any(String),
      );
      lifecycle.finished();
      expect(hooks.ended).toHaveBeenCalledWith(expect.objectContaining({ graceful: false, initiator: by }));
    }
  });

  test('that takes too long in the teardown becomes a failure too', () => {
    const { hooks, lifecycle } = make();
    lifecycle.peerClosed();
    expect(hooks.teardown).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(1000);
    expect(hooks.kill).toHaveBeenCalledTimes(1);
  });
});

describe('a failure', () => {
  test('kills at once, and the first one counts', async () => {
    const { hooks, lifecycle } = make();
    expect(lifecycle.fail(LOST, 'remote', undefined)).toBe(true);
    expect(lifecycle.fail(new VerbmqError('ERR_VERBMQ_ABORTED', 'x'), 'local', 'x')).toBe(false);
    expect(hooks.kill.mock.calls).toEqual([[LOST, undefined]]);
    expect(lifecycle.state).toBe('closing');
    lifecycle.finished();
    lifecycle.finished();
    expect(hooks.ended).toHaveBeenCalledTimes(1);
    expect(await lifecycle.closed).toEqual({ graceful: false, initiator: 'remote', error: LOST });
  });

  test('ends an orderly end, which goes no further', () => {
    const { hooks, lifecycle } = make();
    lifecycle.beginClose('local');
    lifecycle.fail(LOST, 'remote', undefined);
    lifecycle.peerClosed();
    lifecycle.progressed();
    lifecycle.beginClose('local');
    expect(hooks.teardown).not.toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
  });

  test('after the end changes nothing', async () => {
    const { hooks, lifecycle } = make();
    lifecycle.peerClosed();
    lifecycle.finished();
    expect(lifecycle.fail(LOST, 'remote', undefined)).toBe(false);
    expect(hooks.kill).not.toHaveBeenCalled();
    expect((await lifecycle.closed).graceful).toBe(true);
  });

  test('is the cause of what later calls are told', () => {
    const { lifecycle } = make();
    lifecycle.assertOpen('send');
    lifecycle.fail(LOST, 'remote', undefined);
    expect(() => lifecycle.assertOpen('send')).toThrow(
      expect.objectContaining({ code: 'ERR_VERBMQ_CLOSED', cause: LOST }),
    );
    expect(lifecycle.closedError('drain').message).toContain('drain');
  });
});
