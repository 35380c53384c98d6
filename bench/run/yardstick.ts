import { setTimeout as delay } from 'node:timers/promises';

/** One reading is the best of so many slices: an interrupt in one of them is not the machine's speed. */
const SLICES = 3;
const SLICE_MS = 20;
/** Readings that are remembered. A machine that stays slower, as when it grew warm, is then the measure of itself. */
const REMEMBERED = 30;
const LOOK_AGAIN_MS = 500;

/**
 * How fast the machine is. On a host that is shared, the same work takes twice as long for seconds together and
 * /proc/stat shows nothing of it: a neighbour on the other thread of the same core, or in the same cache, is not steal time.
 */
export class Yardstick {
  readonly #speed: () => number;
  readonly #readings: number[] = [];

  /** @param speed work that the machine does now in a unit of time */
  constructor(speed: () => number = currentSpeed) {
    this.#speed = speed;
  }

  /** The share of its speed, the best that is remembered, that the machine lacks now: 0.5 at half of it. */
  read(): number {
    const speed = this.#speed();
    this.#readings.push(speed);
    if (this.#readings.length > REMEMBERED) this.#readings.shift();
    return this.#lacking(speed);
  }

  /** Waits until the machine lacks no more than that, but at most so long. What it sees meanwhile is not remembered. */
  async waitUntilLackingAtMost(share: number, limitMs: number): Promise<void> {
    const giveUpAt = performance.now() + limitMs;
    while (performance.now() < giveUpAt && this.#lacking(this.#speed()) > share) await delay(LOOK_AGAIN_MS);
  }

  #lacking(speed: number): number {
    return 1 - speed / Math.max(speed, ...this.#readings);
  }
}

function currentSpeed(): number {
  let best = 0;
  for (let slice = 0; slice < SLICES; slice++) {
    const start = performance.now();
    let units = 0;
    while (performance.now() < start + SLICE_MS) {
      doWork();
      units++;
    }
    best = Math.max(best, units / (performance.now() - start));
  }
  return best;
}

const inFirstCache = new Uint8Array(16 * 1024);
/** More than a core's own caches hold. */
const inSharedCache = new Uint8Array(8 * 1024 * 1024);
const COPIED_BYTES = 128 * 1024;
let copiedTo = 0;

/** Arithmetic, and about as long a copy through the cache that cores share: short against a slice also under emulation. */
function doWork(): void {
  let state = inFirstCache[0] ?? 0;
  for (let at = 0; at < inFirstCache.length; at++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    inFirstCache[at] = state;
  }
  const from = (copiedTo + inSharedCache.length / 2) % inSharedCache.length;
  inSharedCache.copyWithin(copiedTo, from, from + COPIED_BYTES);
  copiedTo = (copiedTo + COPIED_BYTES) % inSharedCache.length;
}
