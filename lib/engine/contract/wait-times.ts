import { WAIT_RANGES, WAIT_TIMES, WAITED_NANOSECONDS } from './layout.js';

/**
 * The upper bounds of the histogram's ranges, in seconds. The last range has no upper bound and is not
 * listed.
 */
export const WAIT_BOUNDS: readonly number[] = [
  1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1, 3, 10,
];

const MILLISECONDS = 1000;
const NANOSECONDS = 1e6;

/** The range of a wait of this many milliseconds. */
export function rangeOf(waited: number): number {
  const range = WAIT_BOUNDS.findIndex((bound) => waited <= bound * MILLISECONDS);
  return range < 0 ? WAIT_RANGES - 1 : range;
}

/** Adds a wait of this many milliseconds to the lock's histogram. */
export function countWait(cells: BigInt64Array, waited: number): void {
  Atomics.add(cells, WAIT_TIMES + rangeOf(waited), 1n);
  Atomics.add(cells, WAITED_NANOSECONDS, BigInt(Math.round(waited * NANOSECONDS)));
}
