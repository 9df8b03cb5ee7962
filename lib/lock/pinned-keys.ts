import { defer } from '../common/host.js';
import type { LockKey } from '../common/types.js';
import {
  CROWDED,
  IDLE_ENDED,
  NO_STRIPE,
  PINNED_AGAIN,
  STRIPE_MASK,
  type ExactKeys,
} from '../engine/contract/exact-keys.js';
import { CACHED_KEYS, StripeCache } from './stripe-cache.js';
import { isRememberable } from './stripe-index.js';

/**
 * The most keys in a thread's cache, as a share of the lock's capacity. All threads' caches together may fill half of the
 * capacity: see `KeyTable::isCrowded` in `native/core/table/key_table.h`.
 */
const CACHED_SHARE = 3 / 8;
/** The number of pins outside the cache that end together, in a batch. */
const BATCH = 80;
/** The upper bound of a batch, as a share of the lock's capacity. An idle thread may keep that many pins. */
const BATCH_SHARE = 1 / 800;
const NONE: readonly number[] = [];

/**
 * The stripes of keys, for one thread and one table. All locks of the thread on the table share this object. Each key
 * is pinned before its stripe is used. Keys in the cache stay pinned, so finding their stripes costs one look-up in a
 * map. The pins of other keys end in batches.
 *
 * Keeps N4 of `native/core/table/key_table.h`: a key stays pinned from its look-up until the engine knows that its
 * stripe is held or waited for. So an acquisition ends pins only before its first look-up, or after a failure that
 * makes it look up all keys again. It reads its list before the first look-up, because a getter of the list may acquire
 * other keys.
 *
 * Acquisitions can nest: between {@link keep} and {@link end}, code of the program may run and acquire keys. Such code is
 * `Error.prepareStackTrace`, a method of a custom signal, or a trap of a Proxy. Stripes of the outer acquisitions stay
 * pinned.
 *
 * A pinned stripe is in the cache, in the list `#outside`, or in `#last`, but never in two of them. Otherwise the cache
 * could return a stripe after the list has ended its pin. If a call throws, a pinned stripe may be in none of them,
 * until {@link unpinIdle} finds it.
 */
export class PinnedKeys {
  readonly cache: StripeCache;
  /**
   * Counts how often pins have ended. After a change, a stripe that was looked up earlier may belong to another key.
   */
  unpins = 0;
  readonly #keys: ExactKeys;
  readonly #capacity: number;
  /**
   * The stripe that was pinned last, if it is not in the cache and its acquisition had no other key. The call that pins
   * the next single key also unpins this stripe, which costs much less than a batch. If this thread still uses the
   * stripe, or the next key belongs to a list, the stripe moves to `#outside`.
   */
  #last = NO_STRIPE;
  /** The number of stripes in `#outside`. */
  #count = 0;
  /** The list of pinned stripes that are neither in the cache nor in `#last`. Some are in use, others are idle. */
  #outside: Int32Array;
  /**
   * The number of stripes at the front of `#outside` that were in use when last checked. They are checked less often
   * than new ones.
   */
  #old = 0;
  readonly #batch: number;
  /** Pins end when `#outside` reaches this length. */
  #most: number;
  /**
   * The stripes that acquisitions keep, the outermost first. If a `vm` timeout ends an acquisition, its stripes stay in
   * this list, until a microtask removes them.
   */
  readonly #kept: (readonly number[])[] = [];
  /** Whether that microtask is scheduled. */
  #isForgetting = false;
  /** Whether the engine reported that all threads together have pinned too many keys. */
  #crowded = false;

  private constructor(keys: ExactKeys, capacity: number) {
    this.#keys = keys;
    this.#capacity = capacity;
    const most = Math.max(1, Math.min(CACHED_KEYS, Math.floor(capacity * CACHED_SHARE)));
    this.cache = new StripeCache(most, (stripes) => {
      for (const stripe of stripes) if (stripe >= 0) this.#add(stripe);
    });
    this.#batch = Math.max(1, Math.min(BATCH, Math.floor(capacity * BATCH_SHARE)));
    this.#most = this.#batch;
    this.#outside = new Int32Array(this.#batch);
  }

  /** Returns the object that all locks of this thread on these keys share. */
  static of(keys: ExactKeys, capacity: number): PinnedKeys {
    return (keys.pinned ??= new PinnedKeys(keys, capacity)) as PinnedKeys;
  }

  /**
   * Pins a key that is not in the cache's `searched`, and returns its stripe, or {@link NO_STRIPE} if none is left. `only`:
   * whether the acquisition has no other key. If so, pins may end here, because no key has been looked up yet.
   */
  stripeOf(key: LockKey, only: boolean): number {
    if (only) this.trim();
    const cached = isRememberable(key);
    const known = cached ? this.cache.find(key) : undefined;
    if (known !== undefined) return known;
    const mayUnpin = only && this.#kept.length === 0;
    const answer = this.#pin(key, mayUnpin);
    if ((answer & CROWDED) !== 0) this.#crowded = true;
    const stripe = answer & STRIPE_MASK;
    if (stripe === NO_STRIPE) return NO_STRIPE;
    // A newly pinned stripe goes to the cache if possible, otherwise to `#last` or the list. A stripe that was pinned before
    // stays where it is.
    if ((answer & PINNED_AGAIN) === 0 && !(cached && this.cache.add(key, stripe))) {
      if (mayUnpin) this.#last = stripe;
      else this.#add(stripe);
    }
    return stripe;
  }

  /** Keeps these stripes pinned until {@link end}. Until then, code of the program may run. */
  keep(stripes: readonly number[]): void {
    if (this.#kept.length > 0 && !this.#isForgetting) {
      // Either this acquisition runs within another one, or a `vm` timeout ended the other one. In a microtask none is active.
      defer(() => {
        this.#isForgetting = false;
        this.#kept.length = 0;
      }, undefined);
      this.#isForgetting = true;
    }
    this.#kept.push(stripes);
  }

  end(): void {
    this.#kept.pop();
  }

  /**
   * Unpins stripes that this thread neither holds nor waits for: all of them, or only those pinned since the last check. Even
   * in a thread that holds nearly all keys, some of the new stripes are usually idle. Each new stripe is checked once.
   *
   * Keeps N4: the caller has not looked up a key yet, or has failed and looks up all keys again. The kept stripes of outer
   * acquisitions stay pinned.
   */
  unpinIdle(all: boolean): void {
    this.cache.bypass();
    const last = this.#last;
    this.#last = NO_STRIPE;
    if (all) {
      const stripes = new Int32Array(this.#capacity);
      for (let stripe = 0; stripe < stripes.length; stripe++) stripes[stripe] = stripe;
      this.#unpin(stripes, stripes.length);
    } else {
      if (last !== NO_STRIPE) this.#add(last);
      this.#unpinNew();
    }
  }

  /**
   * Pins a key, and returns the engine's answer. Afterwards `#last` is empty: its stripe was unpinned, or moved to
   * `#outside`.
   */
  #pin(key: LockKey, mayUnpin: boolean): number {
    const last = this.#last;
    const answer = this.#keys.pin(key, mayUnpin ? last : NO_STRIPE);
    if (last !== NO_STRIPE) {
      this.#last = NO_STRIPE;
      if ((answer & IDLE_ENDED) === 0) this.#add(last);
    }
    return answer;
  }

  /**
   * Ends pins if `#outside` is long, or if all threads together have pinned too many keys. Keeps N4: the caller has not
   * looked up a key yet.
   */
  trim(): void {
    if (this.#crowded) {
      this.#crowded = false;
      this.cache.bypass();
    }
    if (this.#count >= this.#most) this.#unpin(this.#outside, this.#count);
  }

  /**
   * Unpins idle stripes, and makes the rest the new `#outside`. The rest are checked again when the list is a quarter
   * longer, so the checks cost constant time per pinned key.
   */
  #unpin(stripes: Int32Array, count: number): void {
    const kept = this.#unpinFrom(0, stripes, count);
    this.#outside = stripes;
    this.#count = this.#old = kept;
    this.#most = this.#batch + kept + (kept >> 2);
  }

  /**
   * Unpins idle stripes among those that were pinned since the last check. `#most` stays the same, because the older
   * stripes were not checked.
   */
  #unpinNew(): void {
    const old = this.#old;
    const stripes = this.#outside.subarray(old, this.#count);
    this.#count = this.#old = old + this.#unpinFrom(old, stripes, stripes.length);
  }

  /**
   * Shortens `#outside` to `start`, and unpins the idle stripes among the first `count`. Moves the other stripes to the
   * front, and returns their number.
   */
  #unpinFrom(start: number, stripes: Int32Array, count: number): number {
    this.unpins++;
    const needed = this.#kept.length === 0 ? NONE : this.#moveNeeded(stripes, count);
    // Shorten the list first, so that it has no unpinned stripe even if the next call throws.
    this.#count = start;
    this.#old = Math.min(this.#old, start);
    let kept = this.#keys.unpin(stripes, count - needed.length);
    for (const stripe of needed) stripes[kept++] = stripe;
    return kept;
  }

  /** Moves the stripes kept by active acquisitions to the back. Returns them, duplicates included. */
  #moveNeeded(stripes: Int32Array, count: number): readonly number[] {
    const all = new Set(this.#kept.flat());
    const needed: number[] = [];
    for (let i = 0; i < count; i++) {
      const stripe = stripes[i]!;
      if (all.has(stripe)) needed.push(stripe);
      else stripes[i - needed.length] = stripe;
    }
    stripes.set(needed, count - needed.length);
    return needed;
  }

  #add(stripe: number): void {
    if (this.#count === this.#outside.length) {
      const more = new Int32Array(2 * this.#count);
      more.set(this.#outside);
      this.#outside = more;
    }
    this.#outside[this.#count++] = stripe;
  }
}
