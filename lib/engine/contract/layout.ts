/**
 * The layout of a lock's shared memory, in 32-bit integers. The core uses the same numbers, in
 * `native/core/table/layout.h`; a test compares the two files.
 *
 * The memory has a header of six cache lines, and then one cache line for each stripe. The first integer of a
 * stripe's line is the stripe's word (see `lock-word.ts`). The other integers of the line belong to the
 * engine. Each stripe has a separate line to avoid false sharing.
 *
 * The constants whose names end with INDEX are indexes of integers in the header.
 */
export const MAGIC_INDEX = 0;
export const VERSION_INDEX = 1;
export const ENGINE_INDEX = 2;
export const STRIPES_INDEX = 3;
/**
 * The index of two integers. They identify the copy of the addon that manages the lock's queues; both are 0
 * for the JavaScript engine.
 */
export const REGISTRY_INDEX = 4;

/** 1 if each key in use has a separate stripe, otherwise 0. */
export const EXACT_INDEX = 6;
/** The number of permits of each stripe. 1 if the table has no permits (see `PERMIT_MODE` in `mode.ts`). */
export const LIMIT_INDEX = 7;

/**
 * Native engine: the index of an integer with two flags. {@link OBSERVE_METRICS} is set while wait times are
 * measured, {@link OBSERVE_PROFILE} while a profile of the lock is running. The addon sets the flags in the
 * memory of each observed lock. A thread reads them when an acquisition has to wait.
 */
export const OBSERVED_INT = 8;
export const OBSERVE_METRICS = 1;
export const OBSERVE_PROFILE = 2;

/** The index of the cell with the last assigned fencing token. A cell is a 64-bit integer of the header. */
export const TOKEN_CELL = 8;
/** The indexes of the cells that count metrics. Each name is a field of `StripedLockStats`. */
export const METRIC_CELLS = {
  contended: 16,
  timeouts: 17,
  aborts: 18,
  deadlocks: 19,
  abandoned: 20,
  waiting: 21,
} as const;

/**
 * Native engine, exact keys: the cell that keeps the number of abandoned keys while no thread has the lock
 * open.
 */
export const LEFT_ORPHANS = 24;

/**
 * The first cell of a histogram of wait times, which has one cell for each range of times (`wait-times.ts`).
 * The cell {@link WAITED_NANOSECONDS} has the sum of all wait times. These cells are updated only while
 * {@link OBSERVE_METRICS} is set.
 */
export const WAIT_TIMES = 32;
export const WAIT_RANGES = 14;
export const WAITED_NANOSECONDS = 46;

export const HEADER_INTS = 96;
export const STRIPE_SHIFT = 4;
export const STRIPE_INTS = 1 << STRIPE_SHIFT;
/**
 * Native engine: the offset from a stripe's word to the stripe's arrival count. This integer counts all
 * acquisitions that have ever joined the stripe's queue.
 */
export const ARRIVALS_INT = 1;
/** JavaScript stores only these bits of the arrival count. */
export const ARRIVAL_MASK = 0x3fff_ffff;

export const MAGIC = 0x5374_724c;
export const VERSION = 3;
export const ENGINE_NATIVE = 1;
export const ENGINE_JAVASCRIPT = 2;

/** The maximum number of stripes of a lock. The lines of that many stripes take 64 MiB. */
export const MAX_STRIPES = 1_048_576;
/** The maximum number of permits of a stripe. */
export const MAX_LIMIT = 1_048_576;

/** The index of a stripe's word in the lock's memory. */
export function wordIndex(stripe: number): number {
  return HEADER_INTS + (stripe << STRIPE_SHIFT);
}

/** The size of a lock's memory in bytes. */
export function byteLengthFor(stripes: number): number {
  return (HEADER_INTS + stripes * STRIPE_INTS) * Int32Array.BYTES_PER_ELEMENT;
}
