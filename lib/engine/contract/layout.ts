/**
 * The layout of a lock's shared memory, in 32-bit integers. `native/core/table/layout.h` has the numbers that the core uses;
 * a test compares the two.
 *
 * A header of six cache lines is followed by one cache line per stripe. The first integer of such a line is the
 * stripe's word (see `lock-word.ts`), the rest belongs to the engine. Each stripe has a separate line to avoid false
 * sharing.
 */
export const MAGIC_INDEX = 0;
export const VERSION_INDEX = 1;
export const ENGINE_INDEX = 2;
export const STRIPES_INDEX = 3;
/** 64 bits that identify the copy of the addon with the wait queues; 0 with the JavaScript engine. */
export const REGISTRY_INDEX = 4;

/** 1 if each key in use has a separate stripe, else 0. */
export const EXACT_INDEX = 6;
/** The number of permits of each stripe, if it is more than one (see `PERMIT_MODE` in `mode.ts`), else 1. */
export const LIMIT_INDEX = 7;

/**
 * Native engine: a bit for each active observer. The addon sets them in all locks at once, and each thread checks them
 * when an acquisition has to wait.
 */
export const OBSERVED_INT = 8;
export const OBSERVE_METRICS = 1;
export const OBSERVE_PROFILE = 2;

/** The cell of the last token. Cells are 64-bit integers. */
export const TOKEN_CELL = 8;
/** The cells of metrics, by their names in `StripedLockStats`. `layout.h` also has those that the core counts. */
export const METRIC_CELLS = {
  contended: 16,
  timeouts: 17,
  aborts: 18,
  deadlocks: 19,
  abandoned: 20,
  waiting: 21,
} as const;

/** Native engine: the cell that counts abandoned keys of a lock on exact keys that no thread has open. */
export const LEFT_ORPHANS = 24;

/**
 * The cells of a histogram of wait times, filled while {@link OBSERVE_METRICS} is on: one count per range
 * (`wait-times.ts`), and the sum in nanoseconds.
 */
export const WAIT_TIMES = 32;
export const WAIT_RANGES = 14;
export const WAITED_NANOSECONDS = 46;

export const HEADER_INTS = 96;
export const STRIPE_SHIFT = 4;
export const STRIPE_INTS = 1 << STRIPE_SHIFT;
/** Native engine: the integer, in a stripe's line after its word, that counts arrivals in the stripe's queue. */
export const ARRIVALS_INT = 1;
/** The bits of that count that are stored. */
export const ARRIVAL_MASK = 0x3fff_ffff;

export const MAGIC = 0x5374_724c;
export const VERSION = 3;
export const ENGINE_NATIVE = 1;
export const ENGINE_JAVASCRIPT = 2;

/** The maximum number of stripes of a lock: 64 MiB of words. */
export const MAX_STRIPES = 1_048_576;
/** The maximum number of permits of a stripe. */
export const MAX_LIMIT = 1_048_576;

/** The index of a stripe's word. */
export function wordIndex(stripe: number): number {
  return HEADER_INTS + (stripe << STRIPE_SHIFT);
}

/** The size of a lock's memory in bytes. */
export function byteLengthFor(stripes: number): number {
  return (HEADER_INTS + stripes * STRIPE_INTS) * Int32Array.BYTES_PER_ELEMENT;
}
