/**
 * Where things are in a lock's shared memory, in units of 32-bit integers. The same numbers stand in
 * `native/core/layout.h`; a test compares the two.
 *
 * A header of four cache lines, then one cache line per stripe, whose first integer is the stripe's word
 * (see `lock-word.ts`). The rest of a stripe's line belongs to the engine. One line each, so that threads
 * working on different stripes do not share a line.
 */
export const MAGIC_INDEX = 0;
export const VERSION_INDEX = 1;
export const ENGINE_INDEX = 2;
export const STRIPES_INDEX = 3;
/** 64 bits that name the copy of the addon that owns the wait queues; 0 with the JavaScript engine. */
export const REGISTRY_INDEX = 4;

/** 64-bit cells, in units of 64-bit integers. */
export const TOKEN_CELL = 8;
export const CONTENDED_CELL = 16;
export const TIMEOUTS_CELL = 17;
export const ABORTS_CELL = 18;
export const DEADLOCKS_CELL = 19;
export const ABANDONED_CELL = 20;
/** Acquisitions waiting now. */
export const WAITING_CELL = 21;

export const HEADER_INTS = 64;
export const STRIPE_SHIFT = 4;
export const STRIPE_INTS = 1 << STRIPE_SHIFT;

export const MAGIC = 0x5374_724c;
export const VERSION = 2;
export const ENGINE_NATIVE = 1;
export const ENGINE_JAVASCRIPT = 2;

/** Most stripes that a lock may have: 64 MiB of words. */
export const MAX_STRIPES = 1_048_576;

/** Index of a stripe's word. */
export function wordIndex(stripe: number): number {
  return HEADER_INTS + (stripe << STRIPE_SHIFT);
}

export function byteLengthFor(stripes: number): number {
  return (HEADER_INTS + stripes * STRIPE_INTS) * Int32Array.BYTES_PER_ELEMENT;
}
