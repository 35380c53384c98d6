import { FrameError } from './frame-reader.js';
import { isPolled, POLL, type PolledSource, READY } from './polled-source.js';
import { INITIAL_WINDOW, ITEM_OVERHEAD } from './protocol.js';
import type { StreamGate, Turn } from './stream-gate.js';

/** What became of an item: its length in bytes, and a promise where it waits for the transport. */
export interface SentItem {
  readonly bytes: number;
  readonly sent: true | Promise<void>;
}

/** No receiver needs to be further behind than this, in bytes. */
const MAX_CREDIT = 2 ** 40;

/**
 * The sending end of a stream: takes an item only when the receiver has room for it, and the connection. It is there as soon as the
 * receiver grants anything, which may be long before there is a source.
 */
export class OutboundStream implements Turn {
  #iterator: AsyncIterator<unknown> | undefined;
  readonly #gate: StreamGate;
  readonly #send: (value: unknown) => SentItem;
  #credit = INITIAL_WINDOW;
  #stopped = false;
  #onCredit: (() => void) | undefined;
  /** Told `false` when the stream was stopped before. */
  #onTurn: ((isTurn: boolean) => void) | undefined;

  constructor(gate: StreamGate, send: (value: unknown) => SentItem) {
    this.#gate = gate;
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
    const polled = isPolled(iterator) ? iterator : undefined;
    for (;;) {
      while (this.#credit <= 0 && !this.#stopped) await this.#creditGranted();
      if (this.#stopped) return false;
      const step = polled === undefined ? await this.#ask(iterator) : await this.#poll(polled);
      if (this.#stopped) return false;
      if (step === 'nothing') continue;
      if (step === 'end') return true;
      if (step.sent === true) continue;
      try {
        await step.sent;
      } catch (error) {
        this.#failed(error);
      }
    }
  }

  /** @throws FrameError for more than anybody needs. */
  grant(bytes: number): void {
    this.#credit += bytes;
    if (this.#credit > MAX_CREDIT) throw new FrameError('a stream was granted too much');
    this.#onCredit?.();
  }

  /** Sends nothing more, and lets the source clean up. */
  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#gate.leave(this);
    this.#onCredit?.();
    this.#onTurn?.(false);
    if (this.#iterator !== undefined) void cleanUp(this.#iterator);
  }

  onTurn(): void {
    this.#onTurn?.(true);
  }

  async #ask(iterator: AsyncIterator<unknown>): Promise<SentItem | 'nothing' | 'end'> {
    if (!this.#gate.ask(this) && !(await this.#turn())) return 'nothing';
    const { round } = this.#gate;
    let next: IteratorResult<unknown>;
    try {
      if (this.#stopped) return 'nothing';
      next = await iterator.next();
    } finally {
      this.#gate.answered(round);
    }
    if (this.#stopped) return 'nothing';
    if (next.done === true) return 'end';
    const { value } = next;
    // Others may have been faster meanwhile.
    return this.#whenOpen(() => this.#sendNow(value));
  }

  async #poll(source: PolledSource<unknown>): Promise<SentItem | 'nothing' | 'end'> {
    await source[READY](this.#gate);
    return this.#whenOpen(() => {
      const next = source[POLL]();
      if (next === undefined) return 'nothing';
      return next.done === true ? 'end' : this.#sendNow(next.value);
    });
  }

  #sendNow(value: unknown): SentItem {
    try {
      const item = this.#send(value);
      this.#credit -= item.bytes + ITEM_OVERHEAD;
      return item;
    } catch (error) {
      return this.#failed(error);
    }
  }

  #failed(error: unknown): never {
    this.stop();
    throw error;
  }

  #creditGranted(): Promise<void> {
    return new Promise((resolve) => {
      this.#onCredit = () => {
        this.#onCredit = undefined;
        resolve();
      };
    });
  }

  /** Whether the gate lets this one ask, when it does; `false` when the stream was stopped before. */
  #turn(): Promise<boolean> {
    return new Promise((resolve) => {
      this.#onTurn = (isTurn) => {
        this.#onTurn = undefined;
        resolve(isTurn);
      };
    });
  }

  /** Runs `send` while the gate is open: now, or when it is this one's turn. */
  #whenOpen<T>(send: () => T): T | 'nothing' | Promise<T | 'nothing'> {
    if (this.#stopped) return 'nothing';
    if (this.#gate.open) return send();
    this.#gate.hold(this);
    return new Promise((resolve, reject) => {
      this.#onTurn = (isTurn) => {
        this.#onTurn = undefined;
        try {
          resolve(isTurn ? send() : 'nothing');
        } catch (error) {
          reject(error);
        }
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
