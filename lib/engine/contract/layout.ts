/**
 * Where things are in a lock's shared memory, in units of 32-bit integers. `native/core/layout.h` has the numbers that the
 * core uses; a test compares the two.
 *
 * A header of six cache lines, then one cache line per stripe, whose first integer is the stripe's word
 * (see `lock-word.ts`). The rest of a stripe's line belongs to the engine. Each stripe has a line of its own, so that
 * threads on different stripes do not share a line.
 */
export const MAGIC_INDEX = 0;
export const VERSION_INDEX = 1;
export const ENGINE_INDEX = 2;
export const STRIPES_INDEX = 3;
/** 64 bits that name the copy of the addon that has the wait queues; 0 with the JavaScript engine. */
export const REGISTRY_INDEX = 4;

/** 1 if each key in use has a stripe of its own, else 0. */
export const EXACT_INDEX = 6;
/** How many may hold a stripe at once, if that is more than one: see `PERMIT_MODE` in `mode.ts`. Else 1. */
export const LIMIT_INDEX = 7;

/**
 * Native engine: which observers are on, a bit for each. The addon sets it in all locks at once, so that every thread sees it
 * where an acquisition has to wait.
 */
export const OBSERVED_INT = 8;
export const OBSERVE_METRICS = 1;
export const OBSERVE_PROFILE = 2;

/** The cell of the last token. Cells are counted in units of 64-bit integers. */
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

/** The native engine's cell of how many abandoned keys wait in the memory of a lock on exact keys that nobody has open. */
export const LEFT_ORPHANS = 24;

/**
 * The cells of how long acquisitions waited, while {@link OBSERVE_METRICS} is on: how many in each range of times
 * (`wait-times.ts`), and nanoseconds in all.
 */
export const WAIT_TIMES = 32;
export const WAIT_RANGES = 14;
export const WAITED_NANOSECONDS = 46;

export const HEADER_INTS = 96;
export const STRIPE_SHIFT = 4;
export const STRIPE_INTS = 1 << STRIPE_SHIFT;
/** Native engine: the integer in a stripe's line, behind its word, that counts who came to wait in its queue. */
export const ARRIVALS_INT = 1;
/** The bits of that number that are remembered. */
export const ARRIVAL_MASK = 0x3fff_ffff;

export const MAGIC = 0x5374_724c;
export const VERSION = 3;
export const ENGINE_NATIVE = 1;
export const ENGINE_JAVASCRIPT = 2;

/** The most stripes that a lock may have: 64 MiB of words. */
export const MAX_STRIPES = 1_048_576;
/** The most permits that a stripe may have. */
export const MAX_LIMIT = 1_048_576;

/** The index of a stripe's word. */
export function wordIndex(stripe: number): number {
  return HEADER_INTS + (stripe << STRIPE_SHIFT);
}

/** The size of a lock's memory, in bytes. */
export function byteLengthFor(stripes: number): number {
  return (HEADER_INTS + stripes * STRIPE_INTS) * Int32Array.BYTES_PER_ELEMENT;
}
