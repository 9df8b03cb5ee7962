import { performance } from './host.js';

const COMPARISONS = 16;

/**
 * The offset, in milliseconds, from another clock to `performance.now()`, where both run at the same rate. Each
 * comparison underestimates it by the time between its two readings, so the largest is the closest. A time of the other
 * clock plus this offset is never later than the true time.
 */
export function offsetOf(clock: () => number): number {
  let largest = -Infinity;
  for (let i = 0; i < COMPARISONS; i++) largest = Math.max(largest, performance.now() - clock());
  return largest;
}
