import { readFileSync } from 'node:fs';

export const HUGE_PAGES = '/sys/kernel/mm/transparent_hugepage/enabled';

/** Whether the kernel gives huge pages to those who ask, to all, or to nobody; undefined where it has none. */
export function hugePageSetting(): string | undefined {
  try {
    return /\[(\w+)\]/.exec(readFileSync(HUGE_PAGES, 'utf8'))?.[1];
  } catch {
    return undefined;
  }
}

/** Bytes of this process on huge pages. */
export function hugeBytes(): number {
  const kib = /^AnonHugePages:\s+(\d+)/m.exec(readFileSync('/proc/self/smaps_rollup', 'utf8'))?.[1];
  return Number(kib) * 1024;
}
