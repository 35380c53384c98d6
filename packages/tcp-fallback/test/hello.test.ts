import { isVerbmqError } from '@verbmq/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeOpening, encodeHello, encodeRefusal, RefusalCode } from '../src/hello.js';
import { HELLO } from './raw-peer.js';

function codeOf(bytes: Buffer): string {
  try {
    decodeOpening(bytes);
  } catch (error) {
    if (isVerbmqError(error)) return error.code;
    throw error;
  }
  throw new Error('it was taken');
}

describe('the opening', () => {
  it('is read whole, and not before', () => {
    const bytes = encodeHello(HELLO);
    for (let end = 0; end < bytes.byteLength; end++) {
      expect(decodeOpening(bytes.subarray(0, end))).toBeUndefined();
    }
    const more = Buffer.concat([bytes, Buffer.from([1, 2, 3])]);
    expect(decodeOpening(more)).toEqual({ hello: HELLO, byteLength: bytes.byteLength });
  });

  it('skips fields that it does not know', () => {
    const bytes = encodeHello(HELLO);
    const field = Buffer.from([99, 0, 5, 0, 1, 2, 3, 4, 5]);
    const extended = Buffer.concat([bytes.subarray(0, 12), field, bytes.subarray(12)]);
    extended.writeUInt32LE(bytes.byteLength - 12 + field.byteLength, 8);
    expect(decodeOpening(extended)?.hello).toEqual(HELLO);
  });

  it('tells another version in words', () => {
    const bytes = encodeHello(HELLO);
    bytes.writeUInt8(7, 6);
    expect(codeOf(bytes)).toBe('ERR_VERBMQ_VERSION');
    expect(() => decodeOpening(bytes)).toThrow(/version 7/);
  });

  it('turns each refusal into its error, an unknown one too', () => {
    expect(codeOf(encodeRefusal(RefusalCode.VERSION, 'no'))).toBe('ERR_VERBMQ_VERSION');
    expect(codeOf(encodeRefusal(RefusalCode.OVERLOADED, 'no'))).toBe('ERR_VERBMQ_OVERLOADED');
    expect(codeOf(encodeRefusal(RefusalCode.CLOSING, 'no'))).toBe('ERR_VERBMQ_REJECTED');
    expect(codeOf(encodeRefusal(RefusalCode.CERTIFICATE, 'no'))).toBe('ERR_VERBMQ_TLS');
    expect(codeOf(encodeRefusal(999, 'no'))).toBe('ERR_VERBMQ_REJECTED');
    expect(() => decodeOpening(encodeRefusal(999, 'today is a holiday'))).toThrow(/today is a holiday/);
  });

  it('reads the refusal of a later version', () => {
    const bytes = encodeRefusal(RefusalCode.VERSION, 'this side speaks version 9');
    bytes.writeUInt8(9, 6);
    expect(() => decodeOpening(bytes)).toThrow(/this side speaks version 9/);
  });

  it.each([
    ['GET / HTTP/1.1\r\n', /an HTTP request/],
    ['HTTP/1.1 400 Bad Request\r\n', /an HTTP answer/],
    ['\u0016\u0003\u0001\u0002\u0000', /a TLS ClientHello/],
    ['\u0015\u0003\u0003\u0000\u0002', /a TLS alert/],
    ['SSH-2.0-OpenSSH_9\r\n', /an SSH banner/],
    ['lorem ipsum dolor sit', /6c6f72656d20697073756d20646f6c6f, which is no verbmq hello$/],
  ])('knows %j', (text, words) => {
    expect(() => decodeOpening(Buffer.from(text, 'latin1'))).toThrow(words);
  });

  it('takes any bytes: waits for more, accepts, or refuses', () => {
    const valid = encodeHello(HELLO);
    const mutated = fc
      .tuple(fc.nat({ max: valid.byteLength - 1 }), fc.nat({ max: 255 }), fc.nat({ max: valid.byteLength }))
      .map(([at, byte, end]) => {
        const bytes = Buffer.from(valid);
        bytes.writeUInt8(byte, at);
        return bytes.subarray(0, end);
      });
    const prefixed = fc
      .uint8Array({ maxLength: 64 })
      .map((rest) => Buffer.concat([valid.subarray(0, 8), rest]));
    fc.assert(
      fc.property(fc.oneof(mutated, prefixed, fc.uint8Array({ maxLength: 64 })), (bytes) => {
        try {
          decodeOpening(Buffer.from(bytes));
        } catch (error) {
          if (!isVerbmqError(error)) throw error;
        }
      }),
      { numRuns: 2000 },
    );
  });
});
