import { keepInPlace } from '@verbmq/core/transport-kit';
import { Assembly } from './assembly.js';
import { FrameType, HEADER_BYTES, isKnownType, isLegalLength, MAX_PAYLOAD_BYTES } from './frame.js';
import { protocolError } from './protocol-error.js';
import { isReadMemory } from './read-memory.js';

/** Where the parser brings frames. What these methods throw ends the parsing. */
export interface FrameSink {
  /** A whole DATA frame that lies within the chunk, of which `data` is a view: what comes most often. */
  message(data: Uint8Array): void;
  /**
   * A frame begins; its type and length are legal in themselves. Whether they are legal now, is judged here,
   * before memory is given to it.
   */
  begin(type: number, length: number): void;
  /**
   * A whole frame. `payload` is a view of the chunk that was pushed, or memory of its own; that of a DATA frame stays
   * as it is, any other is for the call only.
   */
  frame(type: number, payload: Uint8Array): void;
  /** The next bytes of a DATA_PIECE or READ_ANSWER frame, from `start` to `end` of `chunk`. */
  stream(type: number, chunk: Uint8Array, start: number, end: number): void;
}

/**
 * Cuts a stream of bytes into frames, whatever the chunks in which it comes. Frames that lie within a chunk are handed
 * on as views; the others are collected, but for the long ones, which are streamed to where they belong.
 */
export class FrameParser {
  readonly #sink: FrameSink;
  /** The beginning of a header that the last chunk ended within. */
  readonly #header = new Uint8Array(HEADER_BYTES);
  #headerBytes = 0;
  /** The frame that the last chunk ended within. */
  #type = 0;
  #streamMissing = 0;
  #collecting: Assembly | undefined;
  /** A message was handed on as a view of the present chunk. */
  #lent = false;
  #stopped = false;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** Memory held for an unfinished frame, in bytes. */
  get heldBytes(): number {
    return this.#collecting?.heldBytes ?? 0;
  }

  /** Nothing is parsed any more, not even the rest of the present chunk. */
  stop(): void {
    this.#stopped = true;
    this.#collecting?.end();
    this.#collecting = undefined;
  }

  /**
   * Answers whether a message was handed on as a view of the chunk; if not, nobody needs the chunk any more.
   * @throws VerbmqError `ERR_VERBMQ_PROTOCOL` when this can be no frame, and whatever the sink throws.
   */
  push(chunk: Uint8Array): boolean {
    this.#lent = false;
    if (this.#stopped) return false;
    const { buffer, byteOffset, length: end } = chunk;
    let at = this.#streamMissing > 0 || this.#collecting !== undefined ? this.#continueFrame(chunk) : 0;
    if (this.#headerBytes > 0 && !this.#stopped) at = this.#continueHeader(chunk, at);
    while (end - at >= HEADER_BYTES && !this.#stopped) {
      const length = lengthAt(chunk, at);
      const payloadEnd = at + HEADER_BYTES + length;
      if (payloadEnd <= end && length <= MAX_PAYLOAD_BYTES && isDataAt(chunk, at)) {
        // Not `subarray`: that of a Buffer takes three times as long, which shows at a million messages a second.
        if (!this.#lent) this.#lend(buffer, payloadEnd === end);
        this.#sink.message(new Uint8Array(buffer, byteOffset + at + HEADER_BYTES, length));
        at = payloadEnd;
      } else {
        at = this.#parse(chunk, at + HEADER_BYTES, chunk, at);
      }
    }
    if (at < end && !this.#stopped) {
      this.#header.set(chunk.subarray(at, end), 0);
      this.#headerBytes = end - at;
    }
    return this.#lent;
  }

  /** Reads the header at `h` of `header`, and what there is of its payload at `at` of `chunk`. Answers where it ended. */
  #parse(chunk: Uint8Array, at: number, header: Uint8Array, h: number): number {
    const length = lengthAt(header, h);
    const type = header[h + 4] as number;
    if (
      ((header[h + 5] as number) | (header[h + 6] as number) | (header[h + 7] as number)) !== 0 ||
      !isLegalLength(type, length)
    ) {
      throw badHeader(type, length, header.subarray(h, h + HEADER_BYTES));
    }
    this.#sink.begin(type, length);
    const available = chunk.byteLength - at;
    const end = length <= available ? at + length : chunk.byteLength;
    if (type === FrameType.DATA_PIECE || type === FrameType.READ_ANSWER) {
      this.#type = type;
      this.#streamMissing = length - (end - at);
      this.#sink.stream(type, chunk, at, end);
    } else if (length <= available) {
      if (type === FrameType.DATA && !this.#lent) this.#lend(chunk.buffer, end === chunk.byteLength);
      this.#sink.frame(type, chunk.subarray(at, end));
    } else {
      this.#type = type;
      this.#collecting = new Assembly(length);
      this.#collecting.append(chunk, at, end);
    }
    return end;
  }

  /**
   * The first message of a chunk is lent. Unless it is `all` that is left in it, the application must not transfer the chunk to
   * another thread: what is behind would be gone with it.
   */
  #lend(chunk: ArrayBufferLike, all: boolean): void {
    this.#lent = true;
    if (!all && !isReadMemory(chunk)) keepInPlace(chunk);
  }

  #continueFrame(chunk: Uint8Array): number {
    const collecting = this.#collecting;
    if (collecting === undefined) {
      const end = Math.min(this.#streamMissing, chunk.byteLength);
      this.#streamMissing -= end;
      this.#sink.stream(this.#type, chunk, 0, end);
      return end;
    }
    const end = Math.min(collecting.missing, chunk.byteLength);
    collecting.append(chunk, 0, end);
    if (collecting.complete) {
      this.#collecting = undefined;
      this.#sink.frame(this.#type, collecting.end());
    }
    return end;
  }

  #continueHeader(chunk: Uint8Array, at: number): number {
    const end = Math.min(at + HEADER_BYTES - this.#headerBytes, chunk.byteLength);
    this.#header.set(chunk.subarray(at, end), this.#headerBytes);
    this.#headerBytes += end - at;
    if (this.#headerBytes < HEADER_BYTES) return end;
    this.#headerBytes = 0;
    return this.#parse(chunk, end, this.#header, 0);
  }
}

function lengthAt(header: Uint8Array, at: number): number {
  return (
    ((header[at] as number) |
      ((header[at + 1] as number) << 8) |
      ((header[at + 2] as number) << 16) |
      ((header[at + 3] as number) << 24)) >>>
    0
  );
}

/** Whether the second half of the header is that of a DATA frame. */
function isDataAt(header: Uint8Array, at: number): boolean {
  return (
    header[at + 4] === FrameType.DATA &&
    ((header[at + 5] as number) | (header[at + 6] as number) | (header[at + 7] as number)) === 0
  );
}

function badHeader(type: number, length: number, header: Uint8Array): Error {
  const hex = Buffer.from(header).toString('hex');
  if (!isKnownType(type)) return protocolError(`the frame header ${hex} has the unknown type ${type}`);
  if (length > MAX_PAYLOAD_BYTES) {
    return protocolError(`the frame header ${hex} claims ${length} bytes; ${MAX_PAYLOAD_BYTES} are the most`);
  }
  return protocolError(`the frame header ${hex} is malformed`);
}
