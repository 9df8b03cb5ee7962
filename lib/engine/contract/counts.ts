import { WAIT_RANGES } from './layout.js';
import { rangeOf } from './wait-times.js';

/** The kinds of locks. Each kind has separate counts. */
export type LockKind = 'lock' | 'process' | 'lease' | 'web-lock';

/** The kinds, in the order of `LockKind` in `native/core/table/registry.h`. */
export const LOCK_KINDS: readonly LockKind[] = ['lock', 'process', 'lease', 'web-lock'];

/**
 * The index of each count in {@link ThreadCounts}, and in a row of the addon's `metrics()`. `LockMetrics` in
 * `registry.h` has the same order. The ranges of the histogram follow these counts.
 */
export const COUNT = {
  locks: 0,
  held: 1,
  waiting: 2,
  contended: 3,
  timeouts: 4,
  aborts: 5,
  deadlocks: 6,
  abandoned: 7,
  acquired: 8,
  refused: 9,
  renewals: 10,
  failures: 11,
  losses: 12,
  nanoseconds: 13,
} as const;

export type CountName = keyof typeof COUNT;

/** The index of a count. */
export type Count = (typeof COUNT)[CountName];

/** The index of the histogram's first range. */
export const COUNTED_WAITS = Object.keys(COUNT).length;

/**
 * The index of the flags of the active observers in {@link ThreadCounts}. The addon sets the same flags as in
 * the memory of a lock: see `OBSERVED_INT`.
 */
export const OBSERVED_CELL = COUNTED_WAITS + WAIT_RANGES;

/** The counts of all locks of one kind with one name, summed over the threads of the process. */
export interface LockCounts extends Readonly<Record<CountName, number>> {
  readonly kind: LockKind;
  readonly name: string;
  /** The number of waits in each range. */
  readonly waits: readonly number[];
}

/**
 * One thread's counts for the leases or web locks of one name, at the indexes of {@link COUNT}. Only this
 * thread writes the array, so counting costs one plain store. The addon reads the array from any thread, and
 * keeps the counts after the thread has ended. Only the addon writes the cell {@link OBSERVED_CELL}.
 */
export type ThreadCounts = Float64Array;

const NANOSECONDS = 1e6;

export function createThreadCounts(): ThreadCounts {
  const cells = OBSERVED_CELL + 1;
  return new Float64Array(new SharedArrayBuffer(cells * Float64Array.BYTES_PER_ELEMENT));
}

/** `by`: 1 or -1. */
export function addCount(counts: ThreadCounts, count: Count, by = 1): void {
  counts[count]! += by;
}

/** Counts a wait of this many milliseconds that has ended. */
export function addWait(counts: ThreadCounts, waited: number): void {
  counts[COUNTED_WAITS + rangeOf(waited)]! += 1;
  counts[COUNT.nanoseconds]! += Math.max(0, waited * NANOSECONDS);
}
