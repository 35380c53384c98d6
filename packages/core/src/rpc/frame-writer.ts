import type { MessageHead } from '../contract/message-head.js';
import { TO_CALLER } from './protocol.js';

const INITIAL_BYTES = 32 * 1024;

/** Frames up to this length are shown by views that are made once, in bytes: making one costs as much as filling it. */
const KEPT_VIEW_BYTES = 512;

/** Writes the head of a frame. Grows as needed; reused for every frame. */
export class FrameWriter implements MessageHead {
  bytes = Buffer.allocUnsafeSlow(INITIAL_BYTES);
  words = new Int32Array(this.bytes.buffer);
  length = 0;
  /** The call of the frame. */
  id = 0;
  readonly #views: Uint8Array[] = [];

  start(type: number, flags: number, id: number): this {
    this.bytes[0] = type;
    this.bytes[1] = flags;
    this.length = 2;
    this.id = id;
    this.number(id);
    return this;
  }

  addFlag(flag: number): void {
    this.bytes[1] = (this.bytes[1] as number) | flag;
  }

  get toCaller(): boolean {
    return ((this.bytes[0] as number) & TO_CALLER) !== 0;
  }

  /** A whole number from 0 to 2^53 - 1. */
  number(value: number): this {
    const { bytes } = this;
    let at = this.length;
    let rest = value;
    while (rest >= 0x8000_0000) {
      bytes[at++] = (rest % 128) | 0x80;
      rest = Math.floor(rest / 128);
    }
    while (rest >= 0x80) {
      bytes[at++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    bytes[at++] = rest;
    this.length = at;
    return this;
  }

  /** A text behind its length. */
  text(value: string): this {
    this.number(Buffer.byteLength(value));
    this.ensure(value.length * 3);
    this.length += this.bytes.write(value, this.length);
    return this;
  }

  raw(value: Uint8Array): this {
    this.ensure(value.byteLength);
    this.bytes.set(value, this.length);
    this.length += value.byteLength;
    return this;
  }

  /** What was written. Valid until the writer is used again. */
  view(): Uint8Array {
    const { length } = this;
    if (length > KEPT_VIEW_BYTES) return this.#newView();
    let view = this.#views[length];
    if (view === undefined) {
      view = this.#newView();
      this.#views[length] = view;
    }
    return view;
  }

  /** Room for `count` bytes and some numbers. */
  ensure(count: number): void {
    const needed = this.length + count + 64;
    if (needed <= this.bytes.byteLength) return;
    const larger = Buffer.allocUnsafeSlow(2 ** Math.ceil(Math.log2(needed)));
    larger.set(this.bytes.subarray(0, this.length));
    this.bytes = larger;
    this.words = new Int32Array(larger.buffer);
    this.#views.length = 0;
  }

  #newView(): Uint8Array {
    return new Uint8Array(this.bytes.buffer, 0, this.length); // `subarray` of a Buffer costs several times as much
  }
}

/** Writes a number from 0 to 2^31 over one that is not smaller, in as many bytes. */
export function replaceNumber(bytes: Uint8Array, at: number, value: number): void {
  let place = at;
  let rest = value;
  for (; (bytes[place] as number) >= 0x80; place++) {
    bytes[place] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  bytes[place] = rest;
}

let free: FrameWriter | undefined = new FrameWriter();

/**
 * The shared writer; a fresh one where that is in use, as when a `toJSON` that runs while a body is encoded makes a
 * call itself.
 */
export function takeWriter(): FrameWriter {
  const writer = free ?? new FrameWriter();
  free = undefined;
  return writer;
}

/** Every writer that was taken comes back, and one is kept. */
export function giveBackWriter(writer: FrameWriter): void {
  if (writer.bytes.length <= 4 * INITIAL_BYTES) free = writer;
  else free ??= new FrameWriter();
}
