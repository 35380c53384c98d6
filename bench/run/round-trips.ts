import { build } from 'hdr-histogram-js';

/** In nanoseconds. */
export interface RoundTripSummary {
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
}

/** Counts round-trip times. */
export class RoundTrips {
  readonly #histogram = build({
    lowestDiscernibleValue: 1,
    highestTrackableValue: 60e9,
    numberOfSignificantValueDigits: 3,
  });

  record(milliseconds: number): void {
    this.#histogram.recordValue(Math.round(milliseconds * 1e6));
  }

  summary(): RoundTripSummary {
    return {
      p50: this.#histogram.getValueAtPercentile(50),
      p99: this.#histogram.getValueAtPercentile(99),
      p999: this.#histogram.getValueAtPercentile(99.9),
      max: this.#histogram.maxValue,
    };
  }
}
