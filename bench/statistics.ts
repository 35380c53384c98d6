/** The middle value; the mean of the two middle ones of an even number. `NaN` of nothing. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The value below which the share `q` of the values lies, interpolated between neighbours. `NaN` of nothing. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const position = (sorted.length - 1) * q;
  const below = sorted[Math.floor(position)] ?? Number.NaN;
  const above = sorted[Math.ceil(position)] ?? Number.NaN;
  return below + (above - below) * (position - Math.floor(position));
}

/** How far the middle half of the values is apart, as a share of their median. */
export function spread(values: readonly number[]): number {
  return (quantile(values, 0.75) - quantile(values, 0.25)) / median(values);
}

/** The lowest or highest value. `NaN` of nothing. */
export function best(values: readonly number[], better: 'lower' | 'higher'): number {
  return quantile(values, better === 'lower' ? 0 : 1);
}
