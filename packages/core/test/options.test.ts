import { afterEach, expect, test, vi } from 'vitest';
import {
  checkInteger,
  describe as describeValue,
  resolveConnectionOptions,
} from '../src/contract/options.js';

afterEach(() => vi.unstubAllEnvs());

test('what is left out has the defaults that are documented', () => {
  vi.stubEnv('VERBMQ_DEBUG', '');
  expect(resolveConnectionOptions()).toMatchObject({
    maxMessageBytes: 64 * 1024 * 1024,
    highWaterMarkBytes: 1024 * 1024,
    maxQueuedBytes: 256 * 1024 * 1024,
    heartbeatIntervalMs: 10_000,
    peerTimeoutMs: 30_000,
    closeTimeoutMs: 30_000,
    handshakeTimeoutMs: 10_000,
    debugLeases: false,
  });
});

test('what is given wins, and undefined gives nothing', () => {
  const base = resolveConnectionOptions({ maxMessageBytes: 100, peerTimeoutMs: 5 });
  const resolved = resolveConnectionOptions(
    { maxMessageBytes: 200, peerTimeoutMs: undefined as never },
    base,
  );
  expect(resolved).toMatchObject({ maxMessageBytes: 200, peerTimeoutMs: 5 });
  expect(base.maxMessageBytes).toBe(100);
});

test('options of others are ignored', () => {
  expect(resolveConnectionOptions({ unheardOf: 5 } as never)).not.toHaveProperty('unheardOf');
});

test('the environment switches debug leases on, and an option overrules it', () => {
  vi.stubEnv('VERBMQ_DEBUG', 'other,leases');
  expect(resolveConnectionOptions().debugLeases).toBe(true);
  expect(resolveConnectionOptions({ debugLeases: false }).debugLeases).toBe(false);
  vi.stubEnv('VERBMQ_DEBUG', 'leasesandmore');
  expect(resolveConnectionOptions().debugLeases).toBe(false);
});

test('the largest limit is 1 GiB', () => {
  expect(resolveConnectionOptions({ maxMessageBytes: 2 ** 30 }).maxMessageBytes).toBe(2 ** 30);
  expect(() => resolveConnectionOptions({ maxMessageBytes: 2 ** 30 + 1 })).toThrow(RangeError);
});

test('integers are checked for type and range, by name', () => {
  expect(checkInteger('n', 3, 0, 3)).toBe(3);
  expect(() => checkInteger('n', 4, 0, 3)).toThrow(new RangeError('n must be an integer from 0 to 3, not 4'));
  expect(() => checkInteger('n', '3', 0, 3)).toThrow(new TypeError('n must be a number, not string'));
  for (const value of [Number.NaN, 0.5, -1, Number.POSITIVE_INFINITY]) {
    expect(() => checkInteger('n', value, 0, 3)).toThrow(RangeError);
  }
});

test('values are described by type or class', () => {
  expect(describeValue(null)).toBe('null');
  expect(describeValue(undefined)).toBe('undefined');
  expect(describeValue('x')).toBe('string');
  expect(describeValue(new Map())).toBe('Map');
  expect(describeValue(Object.create(null))).toBe('an object');
});
