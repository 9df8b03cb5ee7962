import type { KeyState, LockKey } from '../../common/types.js';
import type { StripeCounts } from './engine.js';

/** A flag of {@link ExactKeys.pin}: this thread had already pinned the key. */
export const PINNED_AGAIN = 0x4000_0000;
/** A flag: more than half of the stripes have keys, so the thread should unpin keys that it does not use. */
export const CROWDED = 0x2000_0000;
/** A flag: the stripe `idle` was unpinned, unless it is the key's own stripe. */
export const IDLE_ENDED = 0x1000_0000;
/** Removes the flags from a stripe number. */
export const STRIPE_MASK = IDLE_ENDED - 1;
/** Returned if all stripes have other keys, possibly with {@link IDLE_ENDED}. Higher than any stripe number. */
export const NO_STRIPE = STRIPE_MASK;

/**
 * The stripe of each key in use, seen from one thread. Different keys never have the same stripe at the same time. A
 * key keeps its stripe while a thread has it pinned or the stripe is held.
 */
export interface ExactKeys {
  /**
   * Pins the key and returns its stripe, or {@link NO_STRIPE}. `idle`: a stripe that the same call may unpin unless this thread
   * uses it, or {@link NO_STRIPE}. An engine may ignore it. {@link IDLE_ENDED} reports that it was unpinned, whether or not the
   * key got a stripe.
   */
  pin(key: LockKey, idle: number): number;
  /**
   * Unpins the pinned stripes among the first `count`, except those that this thread holds or waits for. Moves these exceptions
   * to the front, each once, and returns their number. While this thread blocks in another call, all of its pins are kept. Must
   * not be called for a stripe that this thread has looked up and is about to take.
   */
  unpin(stripes: Int32Array, count: number): number;
  /** The number of keys that any thread holds, or that were abandoned. */
  inUse(): number;
  /** The counts of the key's stripe; all 0 if the key has none. Does not pin the key. */
  counts(key: LockKey): StripeCounts;
  inspect(): KeyState[];
  /**
   * The thread's `PinnedKeys` for these keys. Pins belong to the thread, so all its locks on these keys share one
   * object. Another evaluation of the package may have created it, so nothing may depend on its class.
   */
  pinned: object | undefined;
}
