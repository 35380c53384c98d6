import { FrameError } from './frame-reader.js';
import { INITIAL_WINDOW, ITEM_OVERHEAD } from './protocol.js';

/** Sends an item. Answers with its length in bytes, and a promise where the transport is full. */
export type SendItem = (value: unknown) => { bytes: number; sent: true | Promise<void> };

/** No receiver needs to be further behind than this, in bytes. */
const MAX_CREDIT = 2 ** 40;

/**
 * The sending end of a stream: takes an item only when the receiver has room for it. It is there as soon as the receiver grants
 * anything, which may be long before there is a source.
 */
export class OutboundStream {
  #iterator: AsyncIterator<unknown> | undefined;
  readonly #send: SendItem;
  #credit = INITIAL_WINDOW;
  #stopped = false;
  #wake: (() => void) | undefined;

  constructor(send: SendItem) {
    this.#send = send;
  }

  /**
   * Sends everything, once. `true` at the end of the source, `false` when it was stopped; rejects with what the source
   * throws or what sending fails with.
   */
  async run(source: AsyncIterable<unknown>): Promise<boolean> {
    if (this.#stopped) {
      leaveUnread(source);
      return false;
    }
    const iterator = source[Symbol.asyncIterator]();
    this.#iterator = iterator;
    for (;;) {
      while (this.#credit <= 0 && !this.#stopped) await this.#roomAvailable();
      if (this.#stopped) return false;
      const next = await iterator.next();
      if (this.#stopped) return false;
      if (next.done === true) return true;
      try {
        const { bytes, sent } = this.#send(next.value);
        this.#credit -= bytes + ITEM_OVERHEAD;
        if (sent !== true) await sent;
      } catch (error) {
        this.stop();
        throw error;
      }
    }
  }

  /** @throws FrameError for more than anybody needs. */
  grant(bytes: number): void {
    this.#credit += bytes;
    if (this.#credit > MAX_CREDIT) throw new FrameError('a stream was granted too much');
    this.#wake?.();
  }

  /** Sends nothing more, and lets the source clean up. */
  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#wake?.();
    if (this.#iterator !== undefined) void cleanUp(this.#iterator);
  }

  #roomAvailable(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = undefined;
        resolve();
      };
    });
  }
}

/** Opens a source that nobody will read only to close it, which lets it clean up. */
export function leaveUnread(source: AsyncIterable<unknown>): void {
  try {
    void cleanUp(source[Symbol.asyncIterator]());
  } catch {
    // As in `cleanUp`.
  }
}

/** A source that is in the middle of something cleans up when that is over. Nobody waits for it, or for its errors. */
async function cleanUp(iterator: AsyncIterator<unknown>): Promise<void> {
  try {
    await iterator.return?.();
  } catch {
    // The call is over: there is nobody left to tell.
  }
}
