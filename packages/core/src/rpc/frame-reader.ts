import type { ReceiveMemory } from '../contract/direct-receiver.js';

/** A frame that the protocol does not allow: the connection has to end. */
export class FrameError extends Error {}

/** Reads a frame, checking every bound. One is reused for every frame, and read to its end before the next. */
export class FrameReader {
  bytes: Uint8Array = new Uint8Array(0);
  /** The transport's memory that `bytes` is all of, if it is, and what the frame's message is called there. */
  memory: ReceiveMemory | undefined;
  token = 0;
  position = 0;
  /** Where the frame ends in `bytes`, which may be the transport's memory and hold other things behind it. */
  limit = 0;
  type = 0;
  flags = 0;
  id = 0;

  /**
   * The frame lies in `bytes` from `start` to `end`.
   * @throws FrameError for a frame without a whole head.
   */
  open(bytes: Uint8Array, start: number, end: number, memory?: ReceiveMemory, token = 0): void {
    if (end - start < 3) throw new FrameError(`a frame of ${end - start} bytes`);
    this.bytes = bytes;
    this.memory = memory;
    this.token = token;
    this.limit = end;
    this.type = bytes[start] as number;
    this.flags = bytes[start + 1] as number;
    this.position = start + 2;
    this.id = this.number();
  }

  get remaining(): number {
    return this.limit - this.position;
  }

  has(flag: number): boolean {
    return (this.flags & flag) !== 0;
  }

  /** @throws FrameError for a number that is cut off or exceeds 2^53 - 1. */
  number(): number {
    const { bytes, limit } = this;
    let at = this.position;
    let value = 0;
    // The many that are short are read in 32-bit integers.
    for (let shift = 0; at < limit && shift < 28; shift += 7) {
      const byte = bytes[at++] as number;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        this.position = at;
        return value;
      }
    }
    let factor = 2 ** (7 * (at - this.position));
    for (;;) {
      if (at >= limit) throw new FrameError('a number is cut off');
      const byte = bytes[at++] as number;
      if (byte < 0x80) {
        value += byte * factor;
        break;
      }
      value += (byte & 0x7f) * factor;
      factor *= 128;
      if (factor > 2 ** 49) throw new FrameError('a number is too large');
    }
    if (value > Number.MAX_SAFE_INTEGER) throw new FrameError('a number is too large');
    this.position = at;
    return value;
  }

  /** @throws FrameError for a text that is cut off or longer than `maxBytes`. */
  text(maxBytes: number): string {
    const length = this.number();
    if (length > maxBytes) throw new FrameError(`a text of ${length} bytes, where ${maxBytes} are the most`);
    if (length > this.remaining) throw new FrameError('a text is cut off');
    const from = this.position;
    this.position = from + length;
    return Buffer.from(this.bytes.buffer, this.bytes.byteOffset + from, length).toString();
  }

  /** @throws FrameError when bytes are left. */
  end(): void {
    if (this.remaining > 0) throw new FrameError(`${this.remaining} bytes too many`);
  }
}
