/** A time in nanoseconds, for people: `52.1 µs`, `1,616 µs`. Always microseconds, so that rows compare at a glance. */
export function formatNanos(nanos: number): string {
  return `${formatNumber(nanos / 1000)} µs`;
}

/** Three significant digits, thousands separated. */
export function formatNumber(value: number): string {
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
