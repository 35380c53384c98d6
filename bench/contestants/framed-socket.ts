import type { Socket } from 'node:net';
import { TAKEN_BYTES } from './contestant.js';

/**
 * How messages leave: `each` with one write (one system call) a message; `gathered` with one write for all the messages
 * of a turn of the event loop, which is the most that Node's sockets can do.
 */
export type WriteMode = 'each' | 'gathered';

const HEADER_BYTES = 4;
const SLAB_BYTES = 64 * 1024;

/**
 * Messages over a socket: four bytes of length, little-endian, then the message. A baseline, so it does nothing that it
 * could leave out: no limits, no liveness, no backpressure (the benchmark bounds what is in flight).
 */
export class FramedSocket {
  readonly #socket: Socket;
  readonly #onMessage: (message: Buffer) => void;
  readonly #gather: boolean;

  readonly #header = Buffer.allocUnsafe(HEADER_BYTES);
  #headerBytes = 0;
  /** A message that arrives in several chunks. */
  #body: Buffer | undefined;
  #bodyBytes = 0;

  // Frames are written one behind the other into a slab; [#start, #end) has not been handed to the socket yet.
  #slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
  #start = 0;
  #end = 0;
  #gathered: Buffer[] = [];
  #flushing = false;

  constructor(socket: Socket, mode: WriteMode, onMessage: (message: Buffer) => void) {
    this.#socket = socket;
    this.#gather = mode === 'gathered';
    this.#onMessage = onMessage;
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
  }

  send(message: Uint8Array): void {
    if (this.#gather) this.#append(message);
    else this.#write(message);
  }

  #write(message: Uint8Array): void {
    const { byteLength } = message;
    const byReference = byteLength > TAKEN_BYTES;
    const frame = Buffer.allocUnsafe(HEADER_BYTES + (byReference ? 0 : byteLength));
    frame.writeUInt32LE(byteLength, 0);
    if (!byReference) {
      frame.set(message, HEADER_BYTES);
      this.#socket.write(frame);
      return;
    }
    this.#socket.cork(); // header and message leave in one writev
    this.#socket.write(frame);
    this.#socket.write(message);
    this.#socket.uncork();
  }

  #append(message: Uint8Array): void {
    const { byteLength } = message;
    const byReference = byteLength > TAKEN_BYTES;
    const needed = HEADER_BYTES + (byReference ? 0 : byteLength);
    if (this.#end + needed > SLAB_BYTES) {
      this.#cut();
      this.#slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
      this.#start = this.#end = 0;
    }
    this.#slab.writeUInt32LE(byteLength, this.#end);
    if (!byReference) this.#slab.set(message, this.#end + HEADER_BYTES);
    this.#end += needed;
    if (byReference) {
      this.#cut();
      this.#gathered.push(message as Buffer);
    }
    if (!this.#flushing) {
      this.#flushing = true;
      process.nextTick(() => this.#flush());
    }
  }

  #cut(): void {
    if (this.#start < this.#end) this.#gathered.push(this.#slab.subarray(this.#start, this.#end));
    this.#start = this.#end;
  }

  #flush(): void {
    this.#flushing = false;
    this.#cut();
    const gathered = this.#gathered;
    if (gathered.length === 1) {
      this.#socket.write(gathered[0]!);
    } else {
      this.#socket.cork();
      for (const piece of gathered) this.#socket.write(piece);
      this.#socket.uncork();
    }
    gathered.length = 0;
  }

  #receive(chunk: Buffer): void {
    let offset = 0;
    while (offset < chunk.length) {
      if (this.#body !== undefined) {
        offset = this.#continueBody(this.#body, chunk, offset);
        continue;
      }
      let length: number;
      if (this.#headerBytes === 0 && chunk.length - offset >= HEADER_BYTES) {
        length = chunk.readUInt32LE(offset);
        offset += HEADER_BYTES;
      } else {
        const copied = chunk.copy(this.#header, this.#headerBytes, offset);
        offset += copied;
        this.#headerBytes += copied;
        if (this.#headerBytes < HEADER_BYTES) return;
        this.#headerBytes = 0;
        length = this.#header.readUInt32LE(0);
      }
      if (chunk.length - offset >= length) {
        this.#onMessage(chunk.subarray(offset, offset + length));
        offset += length;
      } else {
        this.#body = Buffer.allocUnsafeSlow(length);
        this.#bodyBytes = 0;
      }
    }
  }

  #continueBody(body: Buffer, chunk: Buffer, offset: number): number {
    const copied = chunk.copy(body, this.#bodyBytes, offset);
    this.#bodyBytes += copied;
    if (this.#bodyBytes === body.length) {
      this.#body = undefined;
      this.#onMessage(body);
    }
    return offset + copied;
  }
}
