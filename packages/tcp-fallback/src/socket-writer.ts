import type { Socket } from 'node:net';
import { recycle, type Waiter, type Write } from './write-builder.js';

/**
 * Writes to the socket, one write at a time, each with one system call where it can be. The kernel mostly takes all of
 * it at once, and then the write is complete when `write` returns.
 */
export class SocketWriter {
  readonly #socket: Socket;
  readonly #completed: () => void;
  #pending: Write | undefined;
  readonly #written = (error?: Error | null): void => {
    if (error) return; // the socket is about to break, and none of it may have left, though Node counts it as written
    // The callback of a write that was complete when it returned may come after the next one began: look.
    if (this.#pending === undefined || !this.#isComplete()) return;
    this.#complete(this.#pending);
    this.#completed();
  };

  /** @param completed called when a write is complete that was not when `write` returned. */
  constructor(socket: Socket, completed: () => void) {
    this.#socket = socket;
    this.#completed = completed;
  }

  /** Whether a write is pending; there must be no other then. */
  get busy(): boolean {
    return this.#pending !== undefined;
  }

  /** Bytes of the pending write. */
  get bytes(): number {
    return this.#pending === undefined ? 0 : this.#pending.bytes;
  }

  write(write: Write): void {
    const socket = this.#socket;
    const { pieces } = write;
    const last = pieces.length - 1;
    this.#pending = write;
    if (last > 0) {
      socket.cork();
      for (let i = 0; i < last; i++) socket.write(pieces[i] as Uint8Array);
      socket.write(pieces[last] as Uint8Array, this.#written);
      socket.uncork();
    } else {
      socket.write(pieces[0] as Uint8Array, this.#written);
    }
    if (this.#isComplete()) this.#complete(write);
  }

  /** Gives up. Answers who waits for the pending write. */
  fail(): readonly Waiter[] {
    const waiters = this.#pending?.waiters ?? [];
    this.#pending = undefined;
    return waiters;
  }

  #isComplete(): boolean {
    return this.#socket.writableLength === 0 && !this.#socket.destroyed;
  }

  #complete(write: Write): void {
    this.#pending = undefined;
    recycle(write.batches);
    for (const waiter of write.waiters) waiter.resolve();
  }
}
