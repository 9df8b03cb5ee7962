import type { StripeState } from '../../common/types.js';

/*
 * Where things are in the memory of names: see `key-names.ts`. In units of 32-bit integers.
 */

export const LOCK = 0;
export const VERSION = 1;
/** The first stripe that was used and is free now. */
export const FREE = 2;
/** No stripe from here on was ever used. */
export const USED = 3;
export const HEADER_INTS = 16;

export const PINS = 0;
export const NEXT = 1;
export const PREVIOUS = 2;
/** Where the list begins that the record is in. */
export const LIST = 3;
export const HASH = 4;
/** `KeyText.meta`; 0 if the record is in no list. */
export const META = 5;
export const DATA = 8;
export const RECORD_SHIFT = 7;
export const RECORD_INTS = 1 << RECORD_SHIFT;
export const MOST_UNITS = 2 * (RECORD_INTS - DATA);

/** What the names need to know of the table's words. */
export interface NamedWords {
  readonly memory: Int32Array;
  /** Whether this thread holds the stripe, or an acquisition of it waits for it. */
  uses(stripe: number): boolean;
  inspect(): StripeState[];
}

/** How many lists there are: a power of two. */
export function listsFor(stripes: number): number {
  return 2 ** Math.ceil(Math.log2(stripes));
}

/** The size of the memory. */
export function intsFor(stripes: number): number {
  return HEADER_INTS + listsFor(stripes) + stripes * RECORD_INTS;
}

/** Shared memory for the names of that many keys. Only the part that is used takes memory. */
export function createNames(stripes: number): SharedArrayBuffer {
  return new SharedArrayBuffer(intsFor(stripes) * Int32Array.BYTES_PER_ELEMENT);
}
