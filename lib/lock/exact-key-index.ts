import { LockError } from '../common/errors.js';
import { defer } from '../common/host.js';
import type { LockKey } from '../common/types.js';
import {
  CROWDED,
  NO_STRIPE,
  PINNED_AGAIN,
  STRIPE_MASK,
  type ExactKeys,
} from '../engine/contract/exact-keys.js';
import { isUnderWay } from './general-path.js';
import { isRememberable } from './key.js';
import type { KeyIndex } from './key-index.js';
import { StrayPins } from './stray-pins.js';

/** Most keys in each of the cache's two generations. */
const CACHE_ENTRIES = 24_576;
/**
 * A generation has one of so many of the keys that a lock may have. All threads together remember no more than half of them:
 * see `KeyTable::isCrowded` in `native/core/key_table.h`.
 */
const SHARE = 8 / 3;
/**
 * After so many misses, a sample tells whether the cache pays; see `stripe-index.ts`. After so many generations of them while
 * the cache is new.
 */
const MISSES = 1024;
const SAMPLE = 64;
const FIRST_GENERATIONS = 2;
/**
 * If it does not, so many keys bypass the cache. Then the cache is new. (To fill it costs several times as much as to bypass
 * it.) Twice as many after each such sample, up to so many generations.
 */
const PASSED = 4096;
const MOST_PASSED_GENERATIONS = 32;
/** So many pins outside of the cache are ended at once. */
const STRAYS = 80;
/** Never more than one of so many of the keys that a lock may have: each of many idle threads keeps as many. */
const STRAYS_SHARE = 800;

/**
 * Which stripe a key has for its own, for one thread and one lock. A key is pinned before its stripe is touched, and those
 * that were used last stay pinned, and in a cache: such a key costs a look-up in a Map. Two generations bound the cache,
 * as in `stripe-index.ts`. Keys that bypass it are strays, from their look-up on.
 *
 * Keeps N4 of `native/core/key_table.h`: nothing is unpinned between the look-up of a stripe and the moment when the
 * engine knows that it is held or waited for. So only {@link begin} and a miss unpin, and they do not
 * while {@link busy}. An acquisition counts there if code of the program may run in that time: getters of a list,
 * `Error.prepareStackTrace`, a signal of the program's own. Such code may acquire keys, too.
 *
 * A stack overflow may end any of these functions at any call. Each stripe that is pinned is in one of three places: the
 * cache, the strays, or what leaves the cache to become strays. If it is in none, as that is what failed, it stays pinned, and a
 * later look-up makes it a stray. It is never in two of them, as one would outlive the pin that the other ends.
 */
export class ExactKeyIndex implements KeyIndex {
  /**
   * Acquisitions of this thread that look up stripes, and have not taken them yet; see above. Left too high where a `vm`
   * timeout has ended one.
   */
  busy = 0;
  readonly #names: ExactKeys;
  readonly #capacity: number;
  readonly #lock: string;
  /** To be called before anything is unpinned. */
  readonly #onUnpin: () => void;
  readonly #entries: number;
  readonly #strays: StrayPins;
  /** The young generation; undefined while all keys take the slow way. */
  #searched: ReadonlyMap<unknown, number> | undefined;
  #young = new Map<unknown, number>();
  #old = new Map<unknown, number>();
  #missesLeft: number;
  #nextToPass: number;
  /** How many keys still bypass the cache; how many keys the sample still needs; how many of it were young. */
  #toPass = 0;
  #toSample = 0;
  #found = 0;
  /** Too many keys are remembered, by all threads together. */
  #crowded = false;
  #healing = false;
  /** What was thrown last because no stripe was left. */
  #exhaustion: LockError | undefined = undefined;

  constructor(names: ExactKeys, capacity: number, lock: string, onUnpin: () => void) {
    this.#names = names;
    this.#capacity = capacity;
    this.#lock = lock;
    this.#onUnpin = onUnpin;
    this.#entries = Math.max(1, Math.min(CACHE_ENTRIES, Math.floor(capacity / SHARE)));
    this.#searched = this.#young;
    this.#missesLeft = FIRST_GENERATIONS * this.#entries;
    this.#nextToPass = this.#fewestPassed;
    this.#strays = new StrayPins(Math.max(1, Math.min(STRAYS, Math.floor(capacity / STRAYS_SHARE))));
  }

  /** Throws for a value that cannot be a key, and a LockError (ERR_LOCK_CAPACITY) if no stripe is left for it. */
  stripeOf(key: unknown, name: string): number {
    return this.#searched?.get(key) ?? this.#stripeSlow(key, name);
  }

  /** Before an acquisition during which code of the program may run; afterwards the caller counts {@link busy} down. */
  begin(): void {
    if (this.busy === 0) this.#trim();
    this.busy++;
  }

  /** Unpins what this thread does not use. False if that is not possible now. */
  dropIdle(): boolean {
    if (this.busy > 0 && isUnderWay()) return false;
    this.busy = 0;
    this.#empty();
    return true;
  }

  #stripeSlow(key: unknown, name: string): number {
    if (this.busy === 0) this.#trim();
    else if (this.#strays.isFull(STRAYS) || this.#young.size > 2 * this.#entries) this.#heal();
    const cached = isRememberable(key, name) && this.#toPass === 0;
    if (cached) {
      const known = this.#lookUp(key);
      if (known !== undefined) return known;
    } else if (this.#toPass > 0 && --this.#toPass === 0) {
      this.#endPass();
    }
    let answer = this.#names.pin(key as LockKey);
    if (answer === NO_STRIPE && this.dropIdle()) answer = this.#names.pin(key as LockKey);
    if (answer === NO_STRIPE) throw this.#exhausted();
    const stripe = answer & STRIPE_MASK;
    if ((answer & CROWDED) !== 0) this.#crowded = true;
    const again = (answer & PINNED_AGAIN) !== 0;
    if (cached && this.#toPass === 0 && !again) this.#young.set(key, stripe);
    // Pinned before, and yet not in the cache: it is a stray or about to be one, and stays that.
    else if (!again || !this.#strays.anyLeaving) this.#strays.add(stripe);
    return stripe;
  }

  /** In the whole cache. */
  #lookUp(key: unknown): number | undefined {
    const young = this.#young.get(key);
    const known = young ?? this.#old.get(key);
    if (this.#toSample > 0) {
      if (young !== undefined) this.#found++;
      this.#toSample--;
    } else if (young === undefined) {
      this.#missesLeft--;
    }
    if (young === undefined && known !== undefined) {
      // In this order: see above.
      this.#old.delete(key);
      this.#young.set(key, known);
    }
    return known;
  }

  /** Ends pins, if there are too many. Nothing may be looked up and not taken. */
  #trim(): void {
    if (this.#strays.anyLeaving) this.#strays.leave();
    if (this.#strays.isFull(0)) this.#unpinStrays();
    if (this.#young.size >= this.#entries) this.#turnOver();
    if (this.#toPass > 0) {
      this.#crowded = false;
    } else if (this.#crowded) {
      this.#pass();
    } else if (this.#toSample > 0) {
      this.#searched = undefined;
    } else if (this.#missesLeft <= 0) {
      this.#missesLeft = MISSES;
      this.#toSample = SAMPLE;
      this.#searched = undefined;
    } else if (this.#searched === undefined) {
      this.#endSample();
    }
  }

  #endSample(): void {
    const pays = this.#found >= SAMPLE / 2;
    this.#found = 0;
    if (pays) {
      this.#nextToPass = this.#fewestPassed;
      this.#searched = this.#young;
    } else {
      this.#pass();
    }
  }

  get #fewestPassed(): number {
    return Math.max(PASSED, FIRST_GENERATIONS * this.#entries);
  }

  #pass(): void {
    this.#searched = undefined;
    this.#strays.end(this.#old);
    this.#strays.end(this.#young);
    this.#toPass = this.#nextToPass;
    const most = Math.max(this.#fewestPassed, MOST_PASSED_GENERATIONS * this.#entries);
    this.#nextToPass = Math.min(2 * this.#nextToPass, most);
  }

  #endPass(): void {
    this.#missesLeft = this.#entries;
    this.#searched = this.#young;
  }

  #turnOver(): void {
    this.#strays.end(this.#old);
    const young = this.#old;
    this.#old = this.#young;
    this.#young = young;
    if (this.#searched !== undefined) this.#searched = young;
  }

  /** The cache ends, at once. */
  #empty(): void {
    this.#strays.end(this.#old);
    this.#strays.end(this.#young);
    this.#strays.leave(Infinity);
    this.#unpinStrays();
  }

  #unpinStrays(): void {
    this.#onUnpin();
    this.#strays.unpin(this.#names);
  }

  /** If {@link busy} was left too high: in a microtask no acquisition is under way. */
  #heal(): void {
    if (this.#healing) return;
    this.#healing = true;
    defer(() => {
      this.#healing = false;
      this.busy = 0;
    }, undefined);
  }

  /** Whether an acquisition failed only because it kept idle keys pinned meanwhile: no stripe was free. */
  isExhausted(error: unknown): boolean {
    return error === this.#exhaustion && (this.busy === 1 || !isUnderWay());
  }

  #exhausted(): LockError {
    const lock = this.#lock === '' ? 'lock' : `lock ${JSON.stringify(this.#lock)}`;
    this.#exhaustion = new LockError(
      'ERR_LOCK_CAPACITY',
      `${lock}: no room for another key, as ${this.#capacity} are in use (option capacity)`,
    );
    return this.#exhaustion;
  }
}
