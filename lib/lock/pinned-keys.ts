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
 * A generation of the cache has at most this share of the keys that a lock may have. All threads together remember no more
 * than half of them: see `KeyTable::isCrowded` in `native/core/key_table.h`.
 */
const CACHED_SHARE = 3 / 8;
/** How many pins outside of the cache end at once; and at most which share of all keys: many idle threads keep as many. */
const BATCH = 80;
const BATCH_SHARE = 1 / 800;
const NONE: readonly number[] = [];

/**
 * Which stripe each key has, for one thread and one table: all locks that the thread has on the table share this object. A
 * key is pinned before its stripe is touched. Keys in the cache stay pinned, so such a key costs a look-up in a Map. The
 * pins of other keys end in batches.
 *
 * Keeps N4 of `native/core/key_table.h`: nothing is unpinned between the look-up of a stripe and the moment when the
 * engine knows that it is held or waited for. So pins end only at the start of an acquisition, or for one that has looked up
 * nothing so far. It may be within others: between {@link begin} and {@link end} code of the program may run, and acquire
 * keys, too: getters of a list, `Error.prepareStackTrace`, a signal of the program's own. Elsewhere it cannot. What these
 * others {@link keep} stays pinned. One that is still reading its list compares {@link unpins}, and looks its keys up again.
 *
 * After a stack overflow a stripe may be pinned and in neither the cache nor the list, nor the last. {@link unpinIdle} finds
 * it. It is never in both, as the cache would outlive the pin that the list ends.
 */
export class PinnedKeys {
  readonly cache: StripeCache;
  /** How often pins have ended. A stripe that was looked up before may have another key now. */
  unpins = 0;
  readonly #keys: ExactKeys;
  readonly #capacity: number;
  /**
   * The stripe that was pinned last, if it was for an only key and is not in the cache. The next look-up that misses the cache
   * lets the engine unpin it and give it to its own key, which costs much less than a batch. It is in no set of keys: where
   * one is read, it comes into the list.
   */
  #last = NO_STRIPE;
  /** The other stripes that are pinned and not in the cache, in use or not: this many of the list. */
  #count = 0;
  #outside: Int32Array;
  /** This many at the front of the list were in use when they were last checked, and are checked less often than the others. */
  #old = 0;
  readonly #batch: number;
  /** With as many of these, pins end. */
  #most: number;
  /** Acquisitions between {@link begin} and {@link end}. Too many where a `vm` timeout has ended one. */
  #busy = 0;
  /** The stripes that the last of these and the others keep, if they have called {@link keep}. */
  #kept = NONE;
  readonly #keptBefore: (readonly number[])[] = [];
  /** Whether a microtask is to forget what a `vm` timeout has ended. */
  #isForgetting = false;
  /** Too many keys are remembered, by all threads together. */
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

  /** The same for all locks of this thread on these keys. */
  static of(keys: ExactKeys, capacity: number): PinnedKeys {
    return (keys.pinned ??= new PinnedKeys(keys, capacity)) as PinnedKeys;
  }

  /**
   * The stripe of a key that the cache's `searched` does not have, or {@link NO_STRIPE} if none is left. `only`: the
   * acquisition has no other key, so it has looked up nothing.
   */
  stripeOf(key: LockKey, only: boolean): number {
    if (only) this.#trim();
    const cached = isRememberable(key);
    const known = cached ? this.cache.find(key) : undefined;
    if (known !== undefined) return known;
    const mayUnpin = only && this.#busy === 0;
    const answer = this.#pin(key, only, mayUnpin);
    if ((answer & CROWDED) !== 0) this.#crowded = true;
    const stripe = answer & STRIPE_MASK;
    if (stripe === NO_STRIPE) return NO_STRIPE;
    // If it was pinned before, it is in the list, or in the cache, which is bypassed.
    if ((answer & PINNED_AGAIN) === 0 && !(cached && this.cache.add(key, stripe))) {
      if (mayUnpin) this.#last = stripe;
      else this.#add(stripe);
    }
    return stripe;
  }

  /** From here to {@link end} an acquisition looks up stripes and takes them, while code of the program may run. */
  begin(): void {
    if (this.#busy > 0) this.#beginWithin();
    this.#trim();
    this.#busy++;
  }

  /** These stay pinned until {@link end}. */
  keep(stripes: readonly number[]): void {
    this.#kept = stripes;
  }

  end(): void {
    this.#kept = (--this.#busy > 0 ? this.#keptBefore.pop() : undefined) ?? NONE;
  }

  /**
   * Unpins what this thread does not use: of the stripes that were pinned since the last check, or of all. A thread that holds
   * nearly all keys, and needs others for a while, finds an idle stripe among the new ones, each of which is checked once. Keeps N4: the acquisition has looked up nothing, or
   * has failed and looks up all again; what others keep stays.
   */
  unpinIdle(all: boolean): void {
    this.cache.empty();
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

  /** The answer of the engine. Afterwards the last stripe is in the list, unless it is unpinned or the key's own. */
  #pin(key: LockKey, only: boolean, mayUnpin: boolean): number {
    const last = this.#last;
    const answer = this.#keys.pin(key, mayUnpin ? last : NO_STRIPE);
    if (last !== NO_STRIPE) {
      this.#last = NO_STRIPE;
      if ((answer & IDLE_ENDED) === 0) this.#add(last);
    }
    if (!only || (answer & STRIPE_MASK) !== NO_STRIPE) return answer;
    this.unpinIdle(false);
    const second = this.#keys.pin(key, NO_STRIPE);
    if ((second & STRIPE_MASK) !== NO_STRIPE) return second;
    this.unpinIdle(true);
    return this.#keys.pin(key, NO_STRIPE);
  }

  /** Ends pins, if there are too many. */
  #trim(): void {
    if (this.#crowded) {
      this.#crowded = false;
      this.cache.empty();
    }
    if (this.#count >= this.#most) this.#unpin(this.#outside, this.#count);
  }

  /** Those in use stay, and are looked at again when there are a quarter more: so each costs constant time. */
  #unpin(stripes: Int32Array, count: number): void {
    const kept = this.#unpinFrom(0, stripes, count);
    this.#outside = stripes;
    this.#count = this.#old = kept;
    this.#most = this.#batch + kept + (kept >> 2);
  }

  /** The limit of the list stays: the old stripes in it have not been checked. */
  #unpinNew(): void {
    const old = this.#old;
    const stripes = this.#outside.subarray(old, this.#count);
    this.#count = this.#old = old + this.#unpinFrom(old, stripes, stripes.length);
  }

  /** Unpins the idle ones among the first `count` stripes, with the list cut to `start`. Returns how many come to the front. */
  #unpinFrom(start: number, stripes: Int32Array, count: number): number {
    this.unpins++;
    const needed = this.#busy === 0 ? NONE : this.#moveNeeded(stripes, count);
    // First, so that no stripe is in the list any more once it is unpinned.
    this.#count = start;
    this.#old = Math.min(this.#old, start);
    let kept = this.#keys.unpin(stripes, count - needed.length);
    for (const stripe of needed) stripes[kept++] = stripe;
    return kept;
  }

  /** Moves the stripes that acquisitions keep behind the others. Returns them, each as often as it is there. */
  #moveNeeded(stripes: Int32Array, count: number): readonly number[] {
    const all = new Set([...this.#keptBefore, this.#kept].flat());
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

  /** Another acquisition is busy, or a `vm` timeout has ended it: in a microtask none is busy. */
  #beginWithin(): void {
    if (!this.#isForgetting) {
      defer(() => {
        this.#isForgetting = false;
        this.#busy = 0;
        this.#kept = NONE;
        this.#keptBefore.length = 0;
      }, undefined);
      this.#isForgetting = true;
    }
    this.#keptBefore.push(this.#kept);
    this.#kept = NONE;
  }
}
