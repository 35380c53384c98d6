import { Line } from '../contract/line.js';
import { DEFAULT_MAX_BACKLOG_BYTES } from './limits.js';

/** A stream that waits for its turn. */
export interface Turn {
  /** It has its turn now. What it sends at once is counted before the next one gets one. */
  onTurn(): void;
}

/** What may wait of items that fit into a frame, in bytes: enough to keep any transport busy while the streams take turns. */
const MAX_FRAMES_BYTES = 1024 * 1024;

/** So many sources may be asked for an item at a time. One that has not answered in a turn of the event loop counts no more. */
const MAX_ASKED = 64;

/**
 * The streams of one connection, in both directions, which share what may wait for a peer that does not read: beyond it no source is
 * asked for more, and no item is encoded. So it does not grow with the number of streams. Items that go in pieces are counted by
 * themselves, lest they hold up the others.
 */
export class StreamGate {
  #maxFramesBytes = MAX_FRAMES_BYTES;
  #maxLargeBytes = DEFAULT_MAX_BACKLOG_BYTES;
  #framesBytes = 0;
  #largeBytes = 0;
  #asked = 0;
  #round = 0;
  #roundEnds = false;
  /** Those that have an item, which go first, and those that want one. */
  readonly #holders = new Line<Turn>();
  readonly #askers = new Line<Turn>();

  /** @param maxBytes the most that may wait for this peer. */
  limit(maxBytes: number): void {
    this.#maxLargeBytes = maxBytes;
    this.#maxFramesBytes = Math.min(maxBytes, MAX_FRAMES_BYTES);
    this.#advance();
  }

  /** Whether an item may be sent now. */
  get open(): boolean {
    return this.#framesBytes < this.#maxFramesBytes && this.#largeBytes < this.#maxLargeBytes;
  }

  /** For `answered`: when the source was asked. */
  get round(): number {
    return this.#round;
  }

  /** Whether a source may be asked for an item now. If not, `turn` is told when it may. Then `answered` is due. */
  ask(turn: Turn): boolean {
    if (this.#asked < MAX_ASKED && this.open && this.#askers.length === 0) {
      this.#asked++;
      return true;
    }
    this.#askers.add(turn);
    this.#endRound();
    return false;
  }

  /** A source that was asked in this round has answered, or will not be asked after all. */
  answered(round: number): void {
    if (round !== this.#round) return;
    this.#asked--;
    if (this.#askers.length > 0) this.#advance();
  }

  /** `turn` is told when its item may be sent. */
  hold(turn: Turn): void {
    this.#holders.add(turn);
  }

  /** It does not wait any more. */
  leave(turn: Turn): void {
    this.#holders.delete(turn);
    this.#askers.delete(turn);
  }

  /** An item that costs so many bytes waits until `sent` settles. */
  waits(bytes: number, isLarge: boolean, sent: Promise<void>): void {
    if (isLarge) this.#largeBytes += bytes;
    else this.#framesBytes += bytes;
    const left = (): void => {
      if (isLarge) this.#largeBytes -= bytes;
      else this.#framesBytes -= bytes;
      this.#advance();
    };
    sent.then(left, left);
  }

  #advance(): void {
    while (this.#holders.length > 0 && this.open) this.#holders.shift()?.onTurn();
    while (this.#askers.length > 0 && this.#asked < MAX_ASKED && this.open) {
      this.#asked++;
      this.#askers.shift()?.onTurn();
    }
    this.#endRound();
  }

  /** Those who wait for a place get one soon, though no source answers. */
  #endRound(): void {
    if (this.#askers.length === 0 || this.#roundEnds || !this.open) return;
    this.#roundEnds = true;
    setImmediate(() => {
      this.#roundEnds = false;
      this.#round++;
      this.#asked = 0;
      this.#advance();
    });
  }
}
