/** The wheel turns by one slot in so many milliseconds: a timer fires up to so much late, and never early. */
const TICK_MS = 8;
const SLOTS = 256;

/** A wheel that is further behind than this waited for a process that was busy, in ticks. */
const PROMPT_TICKS = 3;

/** A timer; a link in the list of its slot. */
export interface WheelTimer {
  due: number;
  slot: number;
  previous: WheelTimer | undefined;
  next: WheelTimer | undefined;
  onDue(): void;
}

const slots: (WheelTimer | undefined)[] = new Array(SLOTS).fill(undefined);
let count = 0;
let turned = 0;
let ticking: NodeJS.Timeout | undefined;
/** The timers that are due wait until what has arrived was read. */
let reads = false;

/**
 * Deadlines of calls, shared by all of the process: setting and clearing one is a few assignments, and one timer of Node
 * runs while any is set. It holds the process only as long.
 */
export function setWheelTimer(delayMs: number, onDue: () => void): WheelTimer {
  const now = performance.now();
  if (ticking === undefined) {
    turned = Math.floor(now / TICK_MS);
    ticking = setInterval(turn, TICK_MS);
  } else if (count === 0) {
    ticking.ref();
  }
  const due = now + delayMs;
  const slot = Math.max(Math.ceil(due / TICK_MS), turned + 1) % SLOTS;
  const next = slots[slot];
  const timer: WheelTimer = { due, slot, previous: undefined, next, onDue };
  if (next !== undefined) next.previous = timer;
  slots[slot] = timer;
  count++;
  return timer;
}

/** Clearing a timer that has fired or was cleared does nothing. */
export function clearWheelTimer(timer: WheelTimer): void {
  if (timer.slot < 0) return;
  if (timer.previous === undefined) slots[timer.slot] = timer.next;
  else timer.previous.next = timer.next;
  if (timer.next !== undefined) timer.next.previous = timer.previous;
  timer.slot = -1;
  timer.previous = undefined;
  if (--count === 0) ticking?.unref();
}

function turn(): void {
  if (count === 0) {
    clearInterval(ticking);
    ticking = undefined;
    return;
  }
  if (reads) return;
  if (Math.floor(performance.now() / TICK_MS) - turned <= PROMPT_TICKS) {
    fireAll();
    return;
  }
  // What a timer waits for may have arrived in time, while nobody had time to look.
  reads = true;
  setImmediate(() => {
    reads = false;
    fireAll();
  });
}

function fireAll(): void {
  const now = performance.now();
  const target = Math.floor(now / TICK_MS);
  const steps = Math.min(target - turned, SLOTS);
  for (let step = 1; step <= steps; step++) fire((turned + step) % SLOTS, now);
  turned = target;
}

function fire(slot: number, now: number): void {
  const due: WheelTimer[] = [];
  for (let timer = slots[slot]; timer !== undefined; timer = timer.next)
    if (timer.due <= now) due.push(timer);
  for (const timer of due) {
    if (timer.slot < 0) continue; // cleared by one before it
    clearWheelTimer(timer);
    timer.onDue();
  }
}
