import { createHistogram } from 'node:perf_hooks';

/** Nanoseconds: a minute. Longer waits count as this. */
const LONGEST = 60e9;

/** Times from asking to holding. */
export class Waits {
  #histogram = createHistogram({ lowest: 1, highest: LONGEST, figures: 3 });

  /** @param {number} milliseconds */
  record(milliseconds) {
    const nanoseconds = Math.round(milliseconds * 1e6);
    this.#histogram.record(Math.min(LONGEST, Math.max(1, nanoseconds)));
  }

  reset() {
    this.#histogram.reset();
  }

  /** Can be posted to another thread. */
  get histogram() {
    return this.#histogram;
  }

  /** @param {import('node:perf_hooks').RecordableHistogram} histogram */
  add(histogram) {
    this.#histogram.add(histogram);
  }

  /**
   * Nanoseconds; none if nothing was recorded.
   *
   * @returns {{ p50?: number, p99?: number, p999?: number, max?: number }}
   */
  percentiles() {
    const histogram = this.#histogram;
    if (histogram.count === 0) return {};
    return {
      p50: histogram.percentile(50),
      p99: histogram.percentile(99),
      p999: histogram.percentile(99.9),
      max: histogram.max,
    };
  }
}
