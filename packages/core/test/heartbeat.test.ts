import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { VerbmqError } from '../src/contract/errors.js';
import { resolveConnectionOptions } from '../src/contract/options.js';
import { Heartbeat } from '../src/transport-kit/heartbeat.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function start(heartbeatIntervalMs: number, peerTimeoutMs: number) {
  const ping = vi.fn();
  const dead = vi.fn<(error: VerbmqError) => void>();
  const heartbeat = new Heartbeat(resolveConnectionOptions({ heartbeatIntervalMs, peerTimeoutMs }), {
    ping,
    dead,
  });
  return { heartbeat, ping, dead };
}

test('a peer that speaks is neither pinged nor given up', () => {
  const { heartbeat, ping, dead } = start(100, 300);
  for (let n = 0; n < 100; n++) {
    heartbeat.touch();
    vi.advanceTimersByTime(90);
  }
  expect(ping).not.toHaveBeenCalled();
  expect(dead).not.toHaveBeenCalled();
});

test('a silent peer is pinged, and given up no earlier than its timeout, once', () => {
  const { heartbeat, ping, dead } = start(100, 300);
  vi.advanceTimersByTime(250);
  heartbeat.touch();
  vi.advanceTimersByTime(299);
  expect(ping).toHaveBeenCalled();
  expect(dead).not.toHaveBeenCalled();
  vi.advanceTimersByTime(101);
  expect(dead.mock.calls).toEqual([[expect.objectContaining({ code: 'ERR_VERBMQ_PEER_TIMEOUT' })]]);
  expect(vi.getTimerCount()).toBe(0);
});

test('an answer to a ping is a sign of life', () => {
  const { heartbeat, ping, dead } = start(100, 300);
  ping.mockImplementation(() => heartbeat.touch());
  vi.advanceTimersByTime(10_000);
  expect(ping).toHaveBeenCalled();
  expect(dead).not.toHaveBeenCalled();
});

test('a peer gets at least one ping before it is given up, however long the interval', () => {
  for (const [interval, timeout] of [
    [10_000, 300],
    [300, 300],
    [1, 1],
    [200, 300],
  ] as const) {
    const { ping, dead } = start(interval, timeout);
    vi.advanceTimersByTime(timeout);
    expect(dead).not.toHaveBeenCalled();
    vi.advanceTimersByTime(timeout + 2);
    expect(ping).toHaveBeenCalled();
    expect(dead).toHaveBeenCalledTimes(1);
  }
});

test('a process that was itself suspended does not take its peer for dead', () => {
  const { heartbeat, dead } = start(100, 300);
  vi.advanceTimersByTime(100);
  vi.setSystemTime(Date.now() + 60_000); // the clock went on, the timers did not
  vi.advanceTimersByTime(100);
  heartbeat.touch(); // what had arrived meanwhile is read now
  vi.advanceTimersByTime(200);
  expect(dead).not.toHaveBeenCalled();
});

test('an interval of 0 turns heartbeats off', () => {
  start(0, 300);
  expect(vi.getTimerCount()).toBe(0);
});

test('nothing comes after stop', () => {
  const { heartbeat, ping, dead } = start(100, 300);
  heartbeat.stop();
  vi.advanceTimersByTime(10_000);
  expect(ping).not.toHaveBeenCalled();
  expect(dead).not.toHaveBeenCalled();
});
