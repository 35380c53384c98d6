import { readFileSync } from 'node:fs';

/** CPU time of the whole machine since it started, in seconds. */
export interface MachineTimes {
  /** Of processes. */
  readonly busy: number;
  /** That another guest of the same host had instead of this one. */
  readonly stolen: number;
  /** All of it, idle time too: elapsed time times the number of cores. */
  readonly total: number;
}

/** What else went on while something was measured, as shares of the machine's CPU time. */
export interface Disturbance {
  readonly stolen: number;
  /** Processes that do not belong to the measurement. */
  readonly foreign: number;
}

/** The kernel counts in ticks of 10 ms on every architecture that Node runs on (USER_HZ; proc(5)). */
const TICKS_A_SECOND = 100;

/** @returns `undefined` where there is no /proc/stat. */
export function readMachineTimes(): MachineTimes | undefined {
  try {
    return parseMachineTimes(readFileSync('/proc/stat', 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Reads the first line of /proc/stat: user nice system idle iowait irq softirq steal, then parts of user and nice. */
export function parseMachineTimes(text: string): MachineTimes {
  const match = /^cpu +(.*)$/m.exec(text);
  if (match?.[1] === undefined) throw new Error('/proc/stat has no line for all cores');
  const ticks = match[1].split(' ').map(Number);
  const [user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0] = ticks;
  return {
    busy: (user + nice + system) / TICKS_A_SECOND,
    stolen: steal / TICKS_A_SECOND,
    total: (user + nice + system + idle + iowait + irq + softirq + steal) / TICKS_A_SECOND,
  };
}

/**
 * What disturbed the time between two readings.
 * @param ownSeconds CPU time of the measured processes; `undefined` when it is not known, and foreign is then 0.
 */
export function disturbanceBetween(
  before: MachineTimes | undefined,
  after: MachineTimes | undefined,
  ownSeconds: number | undefined,
): Disturbance {
  if (before === undefined || after === undefined) return { stolen: 0, foreign: 0 };
  const total = Math.max(after.total - before.total, 1 / TICKS_A_SECOND);
  return {
    stolen: (after.stolen - before.stolen) / total,
    foreign: ownSeconds === undefined ? 0 : Math.max(0, after.busy - before.busy - ownSeconds) / total,
  };
}
