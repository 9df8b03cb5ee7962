import type { KeyState, LockKey } from '../../common/types.js';
import type { StripeCounts } from './engine.js';

/** A flag in the result of {@link ExactKeys.pin}, set if this thread had already pinned the key. */
export const PINNED_AGAIN = 0x4000_0000;
/**
 * A flag in the result of {@link ExactKeys.pin}, set if more than half of the stripes have keys. The thread
 * should then unpin keys that it does not use.
 */
export const CROWDED = 0x2000_0000;
/**
 * A flag in the result of {@link ExactKeys.pin}, set if the stripe `idle` was unpinned. If `idle` is the
 * key's own stripe, the call then pins it again.
 */
export const IDLE_ENDED = 0x1000_0000;
/** The bits of the result of {@link ExactKeys.pin} that contain the stripe number. */
export const STRIPE_MASK = IDLE_ENDED - 1;
/**
 * The stripe number in the result of {@link ExactKeys.pin} if all stripes have other keys. This number is
 * higher than any real stripe number. The flag {@link IDLE_ENDED} may be set as well.
 */
export const NO_STRIPE = STRIPE_MASK;

/**
 * One thread's view of a table in which each key in use has a separate stripe. A key keeps its stripe while
 * any thread has pinned the key, and while the stripe is held.
 */
export interface ExactKeys {
  /**
   * Pins the key and returns its stripe, or {@link NO_STRIPE}. `idle`: another stripe to unpin in the same
   * call, or {@link NO_STRIPE}. The stripe `idle` stays pinned if this thread uses it; an engine may also
   * ignore the argument. The result contains {@link IDLE_ENDED} if `idle` was unpinned, whether or not the
   * key got a stripe.
   */
  pin(key: LockKey, idle: number): number;
  /**
   * Unpins the first `count` stripes of the array. Stripes that this thread holds or waits for stay pinned.
   * This method moves them to the front of the array, without duplicates, and returns their number. Stripes
   * that are not pinned are ignored. While another call blocks this thread, all stripes stay pinned. The
   * array must not contain a stripe that this thread has looked up and is about to acquire.
   */
  unpin(stripes: Int32Array, count: number): number;
  /** The number of keys that are held, plus the keys that were not released before their holder died. */
  inUse(): number;
  /**
   * Returns the word of the key's stripe and the number of its waiters. Both are 0 if the key has no stripe.
   * Does not pin the key.
   */
  counts(key: LockKey): StripeCounts;
  inspect(): KeyState[];
  /**
   * The `PinnedKeys` object for these keys in this thread. Pins belong to the thread, so all locks of the
   * thread on these keys share one object. Another copy of the package in this thread may have created the
   * object, so code must not depend on the object's class.
   */
  pinned: object | undefined;
}
