import type { Codec } from '@verbmq/core/codec';
import { json } from './json-codec.js';

/** Values in which such an object lies are meddled with. */
export interface Marked {
  readonly meddle: 'encode' | 'decode';
}

/**
 * JSON, written in place where there is room, that calls `meddle` in the middle of encoding or decoding a value that is marked for
 * it: a codec that does what it should not, but does its own work right.
 */
export class MeddlingCodec implements Codec {
  readonly name = 'json';
  meddle: () => void = () => {};

  encode(value: unknown, reserve: number): Uint8Array {
    const bytes = json.encode(value, reserve);
    this.#look(bytes, 'encode');
    return bytes;
  }

  encodeInto(value: unknown, target: Buffer, offset: number): number {
    const text = Buffer.from(JSON.stringify(value));
    if (offset + text.length > target.length) return -1;
    const half = text.length >> 1;
    target.set(text.subarray(0, half), offset);
    this.#look(text, 'encode');
    target.set(text.subarray(half), offset + half);
    return offset + text.length;
  }

  decode(bytes: Uint8Array, start: number, end: number): unknown {
    const half = (start + end) >> 1;
    const before = Buffer.from(bytes.subarray(start, half));
    this.#look(bytes.subarray(start, end), 'decode');
    return JSON.parse(Buffer.concat([before, bytes.subarray(half, end)]).toString());
  }

  #look(text: Uint8Array, act: Marked['meddle']): void {
    if (Buffer.from(text).includes(`"meddle":"${act}"`)) this.meddle();
  }
}
