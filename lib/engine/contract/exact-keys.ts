import type { KeyState, LockKey } from '../../common/types.js';
import type { StripeCounts } from './engine.js';

/** A flag in the result of {@link ExactKeys.pin}: this thread had already pinned the key. */
export const PINNED_AGAIN = 0x4000_0000;
/**
 * A flag in the same result: more than half of the stripes have keys, so the thread should unpin keys that it
 * does not use.
 */
export const CROWDED = 0x2000_0000;
/** A flag in the same result: `idle` was unpinned. If `idle` is the key's own stripe, it is pinned again. */
export const IDLE_ENDED = 0x1000_0000;
/** The bits of the same result that contain the stripe number. */
export const STRIPE_MASK = IDLE_ENDED - 1;
/**
 * The stripe number in the result if all stripes have other keys. It is higher than any real stripe number.
 * The flag {@link IDLE_ENDED} may be set as well.
 */
export const NO_STRIPE = STRIPE_MASK;

/**
 * One thread's view of the stripes that the keys in use have. At any time, different keys have different
 * stripes. A key keeps its stripe while a thread has pinned the key, and while the stripe is held.
 */
export interface ExactKeys {
  /**
   * Pins the key and returns its stripe, or {@link NO_STRIPE}. `idle`: another stripe to unpin in the same
   * call, or {@link NO_STRIPE}. The stripe `idle` stays pinned if this thread uses it; an engine may also
   * ignore it. {@link IDLE_ENDED} reports that `idle` was unpinned, whether or not the key got a stripe.
   */
  pin(key: LockKey, idle: number): number;
  /**
   * Unpins the first `count` stripes, except those that this thread holds or waits for. Stripes that are not
   * pinned are ignored. Moves the exceptions to the front of the array, without duplicates, and returns their
   * number. While another call blocks this thread, all pins are kept. The array must not contain a stripe
   * that this thread has looked up and is about to take.
   */
  unpin(stripes: Int32Array, count: number): number;
  /** The number of keys that a thread holds, or whose last holder died without releasing them. */
  inUse(): number;
  /**
   * The word of the key's stripe and the number of its waiters; both 0 if the key has no stripe. Does not pin
   * the key.
   */
  counts(key: LockKey): StripeCounts;
  inspect(): KeyState[];
  /**
   * The `PinnedKeys` object for these keys in this thread. Pins belong to the thread, so all locks of the
   * thread on these keys share one object. Another evaluation of the package may have created the object, so
   * code must not depend on its class.
   */
  pinned: object | undefined;
}
