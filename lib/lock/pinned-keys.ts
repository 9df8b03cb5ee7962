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
 * The maximum number of keys in a thread's cache, as a share of the lock's capacity. The caches of all
 * threads together may fill half of the capacity: see `KeyTable::isCrowded` in
 * `native/core/table/key_table.h`.
 */
const CACHED_SHARE = 3 / 8;
/** The maximum number of keys in a batch. Keys outside the cache are unpinned in batches. */
const BATCH = 80;
/**
 * The maximum size of a batch, as a share of the lock's capacity. An idle thread may keep a whole batch of
 * keys pinned.
 */
const BATCH_SHARE = 1 / 800;
const NONE: readonly number[] = [];

/**
 * Finds the stripes of keys, and pins the keys, for one thread and one table. All locks of the thread on that
 * table share this object. A key keeps its stripe while the key is pinned. Each key is pinned before its
 * stripe is used. Keys in the cache stay pinned, so finding the stripe of such a key costs one look-up in a
 * map. Other keys are unpinned in batches.
 *
 * By N4 of `native/core/table/key_table.h`, a key stays pinned from its look-up until the engine knows that
 * the key's stripe is held or waited for. So an acquisition unpins keys only at two times: before its first
 * look-up, and between a failed look-up and the repeated look-up of all keys. An acquisition also reads the
 * caller's list of keys before its first look-up, because a getter of the list may acquire other keys.
 *
 * Acquisitions can nest: between {@link keep} and {@link end}, user code may run and acquire other keys. Such
 * code is `Error.prepareStackTrace`, a method of a custom signal, or a trap of a Proxy. The stripes of the
 * outer acquisitions stay pinned.
 *
 * A pinned stripe, which is the stripe of a pinned key, is in the cache, in the list `#outside`, or in
 * `#last`, but never in two of these places. If a stripe were both in the list and in the cache, the cache
 * could return the stripe after it was unpinned. If a call throws, a pinned stripe may be in none of the
 * three places, until {@link unpinIdle} finds it.
 */
export class PinnedKeys {
  readonly cache: StripeCache;
  /**
   * Increases with each batch that is unpinned. After a change, a stripe that was looked up
   * earlier may belong to another key.
   */
  unpins = 0;
  readonly #keys: ExactKeys;
  readonly #capacity: number;
  /**
   * The stripe that was pinned last, or `NO_STRIPE`. A stripe is stored here only if it is not in the cache,
   * and if the acquisition that pinned it has a single key. The engine call that pins the key of the next
   * acquisition also unpins this stripe. Unpinning the stripe in this way costs much less than unpinning it
   * in a batch. If this thread still uses the stripe, or if the next acquisition has a list of keys, the
   * stripe moves to `#outside` instead.
   */
  #last = NO_STRIPE;
  /** The number of stripes in `#outside`. */
  #count = 0;
  /** The pinned stripes that are neither in the cache nor in `#last`. Some are in use, others are idle. */
  #outside: Int32Array;
  /**
   * The number of stripes at the front of `#outside` that were in use at the last check. These stripes are
   * checked less often than the stripes behind them.
   */
  #old = 0;
  readonly #batch: number;
  /** When `#outside` has this many stripes, the idle ones among them are unpinned. */
  #most: number;
  /**
   * The stripes that were passed to {@link keep}, the outermost acquisition first. If a `vm` timeout ends an
   * acquisition, its stripes stay in this list until a microtask removes them.
   */
  readonly #kept: (readonly number[])[] = [];
  /** Whether the microtask that empties `#kept` is scheduled. */
  #isForgetting = false;
  /** Whether the engine has reported that all threads together have pinned too many keys. */
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
   * Pins a key that is not in the cache's map `searched`, and returns the key's stripe. Returns
   * {@link NO_STRIPE} if no stripe is left. `only`: true if the acquisition has no other key. In that case,
   * N4 allows this method to unpin idle keys, because the acquisition has not looked up a key yet.
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
    // A newly pinned stripe goes to the cache if possible, and otherwise to `#last` or `#outside`. A stripe
    // that was already pinned stays where it is.
    if ((answer & PINNED_AGAIN) === 0 && !(cached && this.cache.add(key, stripe))) {
      if (mayUnpin) this.#last = stripe;
      else this.#add(stripe);
    }
    return stripe;
  }

  /** Keeps these stripes pinned until {@link end}, even if user code runs in between. */
  keep(stripes: readonly number[]): void {
    if (this.#kept.length > 0 && !this.#isForgetting) {
      // Either this acquisition runs within another acquisition, or a `vm` timeout ended an earlier
      // acquisition without a call of `end`. When a microtask runs, no acquisition is active, so a microtask
      // can empty the list.
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
   * Unpins stripes that this thread neither holds nor waits for. If `all` is true, all stripes are checked.
   * Otherwise, only the stripes that were pinned since the last check are checked. This check usually
   * suffices, because some of these stripes are idle even in a thread that holds nearly all keys.
   *
   * N4 allows this, because the acquisition has not looked up a key yet, or because a look-up has failed and
   * all keys will be looked up again. The stripes of outer acquisitions stay pinned.
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
   * Pins a key, and returns the engine's answer. Afterwards `#last` is empty: its stripe was
   * unpinned, or moved to `#outside`.
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
   * Unpins idle stripes if `#outside` is long. If all threads together have pinned too many keys, the stripes
   * of the cache are first moved to `#outside`. N4 allows this, because the acquisition has not looked up a
   * key yet.
   */
  trim(): void {
    if (this.#crowded) {
      this.#crowded = false;
      this.cache.bypass();
    }
    if (this.#count >= this.#most) this.#unpin(this.#outside, this.#count);
  }

  /**
   * Unpins the idle stripes among the first `count` stripes. The other stripes become the new `#outside`.
   * These stripes are checked again when `#outside` has grown by one batch plus a quarter of its length. So
   * the checks cost constant time per pinned key.
   */
  #unpin(stripes: Int32Array, count: number): void {
    const kept = this.#unpinFrom(0, stripes, count);
    this.#outside = stripes;
    this.#count = this.#old = kept;
    this.#most = this.#batch + kept + (kept >> 2);
  }

  /**
   * Unpins the idle stripes among those that were pinned since the last check. `#most` stays the same,
   * because the older stripes were not checked.
   */
  #unpinNew(): void {
    const old = this.#old;
    const stripes = this.#outside.subarray(old, this.#count);
    this.#count = this.#old = old + this.#unpinFrom(old, stripes, stripes.length);
  }

  /**
   * Unpins the idle stripes among the first `count` stripes. Moves the other stripes to the front of
   * `stripes`, and returns their number. Also shortens `#outside` to the length `start`.
   */
  #unpinFrom(start: number, stripes: Int32Array, count: number): number {
    this.unpins++;
    const needed = this.#kept.length === 0 ? NONE : this.#moveNeeded(stripes, count);
    // Shorten `#outside` first, so that it contains no unpinned stripe even if the next call throws.
    this.#count = start;
    this.#old = Math.min(this.#old, start);
    let kept = this.#keys.unpin(stripes, count - needed.length);
    for (const stripe of needed) stripes[kept++] = stripe;
    return kept;
  }

  /**
   * Reorders the first `count` stripes, so that stripes that are also in `#kept` come last. Returns these
   * last stripes, duplicates included.
   */
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
