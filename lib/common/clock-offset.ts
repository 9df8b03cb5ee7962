import { performance } from './host.js';

const COMPARISONS = 16;

/**
 * The lead of `performance.now()` over another clock, in milliseconds, where both count alike from different
 * moments. Each comparison finds less than the true difference, by the time between the readings. So the largest result is
 * the closest one, and never too large: a time of the other clock plus this is never later than the true one.
 */
export function offsetOf(clock: () => number): number {
  let largest = -Infinity;
  for (let i = 0; i < COMPARISONS; i++) largest = Math.max(largest, performance.now() - clock());
  return largest;
}
