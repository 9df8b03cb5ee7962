import type { KeyState, LockKey } from '../../common/types.js';
import type { StripeCounts } from './engine.js';

/** Added to the stripe: this thread had pinned the key before. */
export const PINNED_AGAIN = 0x4000_0000;
/** Added to the stripe: more than half of the stripes have keys, so the thread should keep pinned only what it uses. */
export const CROWDED = 0x2000_0000;
/** Added to the stripe: `idle` is not pinned any more, unless it is the key's own. */
export const IDLE_ENDED = 0x1000_0000;
/** What is left without what may be added. */
export const STRIPE_MASK = IDLE_ENDED - 1;
/** In place of a stripe: all stripes have other keys. {@link IDLE_ENDED} may be added. No stripe is as high. */
export const NO_STRIPE = STRIPE_MASK;

/**
 * Which stripe each key in use has for its own, seen from one thread. No two keys have the same stripe at one time, and a
 * key keeps its stripe while a thread has it pinned, and while the stripe is held.
 */
export interface ExactKeys {
  /**
   * The key's stripe, which this thread has pinned from then on, or {@link NO_STRIPE}. `idle`: a stripe that may be unpinned
   * in the same call, unless this thread uses it, as if by {@link unpin}; or {@link NO_STRIPE}. An engine may ignore it.
   * {@link IDLE_ENDED} reports that it was unpinned, whether or not the key got a stripe.
   */
  pin(key: LockKey, idle: number): number;
  /**
   * Unpins those of the first `count` stripes that this thread has pinned, and neither holds nor waits for. The others
   * come to the front, each once. (While this thread blocks in another call, so do all that it has pinned.) Returns how
   * many these are. Must not be called for a stripe that this thread has looked up and is about to take.
   */
  unpin(stripes: Int32Array, count: number): number;
  /** How many keys are held by any thread, or were abandoned. */
  inUse(): number;
  /** Of the key's stripe; all 0 if the key has none. Does not pin it. */
  counts(key: LockKey): StripeCounts;
  inspect(): KeyState[];
  /**
   * The thread's `PinnedKeys` over these keys. Pins belong to the thread, so all locks that it has on them share one object.
   * Another evaluation of the package may have created it: nothing may depend on its class.
   */
  pinned: object | undefined;
}
