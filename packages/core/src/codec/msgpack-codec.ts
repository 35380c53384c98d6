import { Packr } from 'msgpackr';
import { VerbmqError } from '../contract/errors.js';
import { checkInteger, checkOptions } from '../contract/options.js';
import { type Codec, MAX_BORROWED_BYTES, MAX_RESERVE } from './codec.js';
import { MAX_DEPTH_LIMIT, type MsgpackLimits, validateMsgpack } from './validate-msgpack.js';

/** Limits of what is decoded. What is encoded is the program's own. */
export interface MsgpackCodecOptions {
  /** How deep arrays and maps may lie in each other, at most 1,024. Default 64. */
  readonly maxDepth?: number;
  /** How many values a body may hold in all, keys counted. Default 1,000,000. */
  readonly maxElements?: number;
}

/** Bits of msgpackr's second argument to `pack`: answer with its buffer; go back to where it began; leave room in front. */
const REUSE_BUFFER = 512;
const RESET_BUFFER = 1024;
const RESERVE_START = 2048;

/** msgpackr leaves a buffer in which fewer bytes are left when it begins (2,048 and 10 of margin). */
const LEAST_ROOM = 2058;

/**
 * Where a body ends at this byte of its memory or later, msgpackr asks its native helper for the texts. For a short body that lies
 * far off in a large memory this takes longer than a view of its own.
 */
const EXTRACTED_END = 140;

/** The size of the buffer that msgpackr starts with, in bytes. */
const PACK_BUFFER_BYTES = 32 * 1024;

/**
 * MessagePack by msgpackr. Numbers, strings, booleans, `null`, `undefined`, arrays, plain objects, `BigInt` of 64 bits,
 * `Date` and binary data survive; a `Map` arrives as an object, a `Set` as an array, typed arrays and `Buffer` as
 * bytes, an object of a class that has `toJSON` as what that answers. Functions (also the `toJSON` that a plain object has of its
 * own), symbols, larger `BigInt`s and cycles are refused.
 */
export class MsgpackCodec implements Codec {
  readonly name = 'msgpack';
  readonly #limits: MsgpackLimits;
  readonly #packr: Packr;
  /** Reused for each decode, which reads it at once. */
  readonly #range = { start: 0, end: 0 };

  /** @throws TypeError or RangeError that names the option. */
  constructor(options: MsgpackCodecOptions = {}) {
    checkOptions('options', options);
    this.#limits = {
      maxDepth: checkInteger('maxDepth', options.maxDepth ?? 64, 1, MAX_DEPTH_LIMIT),
      maxElements: checkInteger('maxElements', options.maxElements ?? 1_000_000, 1, 2 ** 32),
    };
    this.#packr = new Packr({
      useRecords: false, // structures that a peer defines need a trusted peer
      variableMapSize: true, // else an object with 65,536 keys is an error
      copyBuffers: true, // else binary data are views of the receive buffer
      writeFunction: refuseFunction,
    });
  }

  encode(value: unknown, reserve: number): Uint8Array {
    let bytes: Uint8Array | undefined;
    nesting++;
    try {
      bytes = this.#packr.pack(value, RESET_BUFFER | RESERVE_START | reserve);
      return bytes;
    } catch (error) {
      throw unencodable(error);
    } finally {
      nesting--;
      // The buffer belongs to all packers of the process, and would keep the size it grew to. A long answer takes it
      // with it, and so does an encoding that failed half way; but not while one that called this one still writes.
      if ((bytes === undefined || bytes.length > MAX_BORROWED_BYTES) && nesting === 0) {
        this.#packr.useBuffer(Buffer.allocUnsafeSlow(PACK_BUFFER_BYTES));
      }
    }
  }

  encodeInto(value: unknown, target: Buffer, offset: number): number {
    if (target.length < LEAST_ROOM || offset > MAX_RESERVE || nesting > 0) return -1;
    const shared = this.#packr.pack(null, REUSE_BUFFER | RESET_BUFFER);
    const sharedPosition = this.#packr.position;
    this.#packr.useBuffer(target);
    nesting++;
    try {
      const used = this.#packr.pack(value, REUSE_BUFFER | RESERVE_START | offset);
      return used === target ? this.#packr.position : -1;
    } catch (error) {
      throw unencodable(error);
    } finally {
      nesting--;
      // The buffer that is set is that of all packers in the process: the next one would write into the lease. And
      // back to where it was: others may still hold what they packed into it.
      this.#packr.useBuffer(shared);
      this.#packr.position = sharedPosition;
    }
  }

  decode(bytes: Uint8Array, start: number, end: number): unknown {
    validateMsgpack(bytes, start, end, this.#limits);
    const bytesLeft = end - start;
    const isFarOff = end >= EXTRACTED_END && bytesLeft < EXTRACTED_END;
    const source = isFarOff ? new Uint8Array(bytes.buffer, bytes.byteOffset + start, bytesLeft) : bytes;
    this.#range.start = isFarOff ? 0 : start;
    this.#range.end = isFarOff ? bytesLeft : end;
    try {
      return this.#packr.unpack(source, this.#range);
    } catch (error) {
      throw new VerbmqError('ERR_VERBMQ_DECODE', `a MessagePack body was refused: ${messageOf(error)}`, {
        cause: error,
      });
    }
  }
}

/** Encodings in progress: one that runs within another comes from a `toJSON` that encodes. */
let nesting = 0;

function refuseFunction(): never {
  throw new TypeError('functions cannot be sent');
}

function unencodable(error: unknown): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_ENCODE', `a value cannot be encoded: ${messageOf(error)}`, {
    cause: error,
  });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
