import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatAddress, parseAddress, SCHEMES } from '../src/contract/address.js';
import { VerbmqError } from '../src/contract/errors.js';

const port = fc.integer({ min: 0, max: 65_535 });
const host = fc.oneof(
  fc.ipV4(),
  fc.ipV6(),
  fc.domain(),
  fc.constantFrom('localhost', 'fe80::1%eth0', '::', '0.0.0.0'),
);
/** Any path but an empty one: any characters. */
const path = fc.string({ unit: 'binary', minLength: 1 });

describe('the URL of an address', () => {
  test('gives back any host and port', () => {
    fc.assert(
      fc.property(
        host,
        port,
        fc.constantFrom('tcp', 'tls', 'rdma', 'verbmq', 'memory'),
        (host, port, scheme) => {
          expect(parseAddress(formatAddress(scheme as 'tcp', { host, port }))).toEqual({
            scheme,
            host,
            port,
          });
        },
      ),
    );
  });

  test('gives back any path of a Unix socket or in-memory name', () => {
    fc.assert(
      fc.property(path, fc.constantFrom('unix', 'memory'), (path, scheme) => {
        const given = scheme === 'memory' ? path.replace(/^\0+/, 'x') : path;
        expect(parseAddress(formatAddress(scheme as 'unix', { path: given }))).toEqual({
          scheme,
          path: given,
        });
      }),
    );
  });

  test('is what people write', () => {
    expect(formatAddress('tcp', { host: '::1', port: 7000 })).toBe('tcp://[::1]:7000');
    expect(formatAddress('unix', { path: '/run/my app.sock' })).toBe('unix:///run/my%20app.sock');
    expect(formatAddress('unix', { path: '\0name' })).toBe('unix://@name');
    expect(formatAddress('unix', { path: '@name' })).toBe('unix://%40name');
  });
});

describe('parseAddress', () => {
  test('takes URLs, endpoints and paths', () => {
    expect(parseAddress('tcp://localhost:7000')).toEqual({ scheme: 'tcp', host: 'localhost', port: 7000 });
    expect(parseAddress('TCP://localhost:7000/')).toEqual({ scheme: 'tcp', host: 'localhost', port: 7000 });
    expect(parseAddress(new URL('rdma://[fe80::1]:1'))).toEqual({ scheme: 'rdma', host: 'fe80::1', port: 1 });
    expect(parseAddress('unix:///run/a.sock')).toEqual({ scheme: 'unix', path: '/run/a.sock' });
    expect(parseAddress('unix://@abstract')).toEqual({ scheme: 'unix', path: '\0abstract' });
    expect(parseAddress('unix://relative.sock')).toEqual({ scheme: 'unix', path: 'relative.sock' });
    expect(parseAddress('memory://name')).toEqual({ scheme: 'memory', path: 'name' });
    expect(parseAddress({ host: '::1', port: 0 })).toEqual({ host: '::1', port: 0 });
    expect(parseAddress({ path: 'a' })).toEqual({ path: 'a' });
  });

  test('refuses what it cannot understand, in words that quote it', () => {
    for (const text of [
      '',
      'localhost',
      'localhost:7000',
      'http://localhost:80',
      'tcp://localhost',
      'tcp://localhost:',
      'tcp://:7000',
      'tcp://localhost:65536',
      'tcp://localhost:-1',
      'tcp://localhost:7000/path',
      'tcp://user@localhost:7000',
      'tcp://::1:7000',
      'tcp://[::1]',
      'unix://',
      'unix://%',
      'memory://',
    ]) {
      const refusal = expect(() => parseAddress(text), text);
      refusal.toThrow(VerbmqError);
      refusal.toThrow(expect.objectContaining({ code: 'ERR_VERBMQ_INVALID_ADDRESS' }));
      refusal.toThrow(JSON.stringify(text));
    }
  });

  test('either understands a string or refuses it, whatever it is', () => {
    const anything = fc.oneof(
      fc.string(),
      fc.string({ unit: 'binary' }),
      fc.tuple(fc.constantFrom(...SCHEMES), fc.string()).map(([scheme, rest]) => `${scheme}://${rest}`),
    );
    fc.assert(
      fc.property(anything, (text) => {
        try {
          const { scheme } = parseAddress(text);
          expect(SCHEMES).toContain(scheme);
        } catch (error) {
          expect(error).toMatchObject({ code: 'ERR_VERBMQ_INVALID_ADDRESS' });
        }
      }),
      { numRuns: 2000 },
    );
  });
});
