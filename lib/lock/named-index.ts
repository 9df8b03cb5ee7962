import { LockError } from '../common/errors.js';
import { defer } from '../common/host.js';
import type { LockKey } from '../common/types.js';
import {
  CROWDED,
  NO_STRIPE,
  PINNED_AGAIN,
  STRIPE_MASK,
  type KeyNames,
} from '../engine/contract/key-names.js';
import { isRememberable } from './key.js';
import type { KeyIndex } from './key-index.js';

/** Most keys in each of the cache's two generations. */
const CACHE_ENTRIES = 24_576;
/**
 * A generation has one of so many of the keys that a lock may have. All threads together remember no more than half of them:
 * see `NameTable::isCrowded` in `native/core/name_table.h`.
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
 * If it does not, so many keys bypass the cache, and then it is new. Twice as many after each such sample, up to so many
 * generations.
 */
const PASSED = 4096;
const MOST_PASSED_GENERATIONS = 32;
/** Pins outside of the cache are ended so many at a time. */
const STRAYS = 64;
/** The same if nobody would end them for a dead thread. */
const FEW_STRAYS = 8;
/** Never more than one of so many of the keys that a lock may have: each of many idle threads keeps as many. */
const STRAYS_SHARE = 1024;

/**
 * Which stripe a key has for its own, for one thread and one lock. A key is pinned before its stripe is touched, and those
 * that were used last stay pinned, and in a cache: such a key costs a look-up in a Map. Two generations bound the cache,
 * as in `stripe-index.ts`. Keys that bypass it are strays, from their look-up on.
 *
 * Keeps N4 of `native/core/name_table.h`: nothing is unpinned between the look-up of a stripe and the moment when the
 * engine knows that it is held or waited for. So only {@link begin} and a miss unpin, and they do not while
 * {@link busy}. An acquisition counts there if code of the program may run in that time: getters of a list,
 * `Error.prepareStackTrace`, a signal of the program's own. Such code may acquire keys, too.
 *
 * A stack overflow may end any of these functions at any call. Each stripe that is pinned is in one of three places: the
 * cache, the strays, or what leaves the cache to become strays. If it is in none, as that is what failed, it stays pinned, and a
 * later look-up makes it a stray. It is never in two of them, as one would outlive the pin that the other ends.
 */
export class NamedIndex implements KeyIndex {
  /** Acquisitions of this thread that look up stripes, and have not taken them yet; see above. */
  busy = 0;
  readonly #names: KeyNames;
  readonly #capacity: number;
  readonly #lock: string;
  /** To be called before anything is unpinned. */
  readonly #onUnpin: () => void;
  readonly #entries: number;
  readonly #fewStrays: number;
  /** The young generation; undefined while all keys take the slow way. */
  #searched: ReadonlyMap<unknown, number> | undefined;
  #young = new Map<unknown, number>();
  #old = new Map<unknown, number>();
  /** Stripes that are pinned and not in the cache, some twice. */
  #strays: Int32Array;
  #strayCount = 0;
  /** With so many strays, those that are not in use are unpinned. */
  #mostStrays: number;
  /** The stripes of a generation that has ended. They become strays a few at a time, so that no call pays for all. */
  #leaving = new Int32Array(0);
  #leavingCount = 0;
  #missesLeft: number;
  #nextToPass: number;
  /** How many keys still bypass the cache; how many the sample still needs; how many of it were young. */
  #toPass = 0;
  #toSample = 0;
  #found = 0;
  /** Too many keys are remembered, by all threads together. */
  #crowded = false;
  #healing = false;
  /** What was thrown last because no stripe was left. */
  #exhaustion: LockError | undefined = undefined;

  constructor(names: KeyNames, capacity: number, lock: string, onUnpin: () => void) {
    this.#names = names;
    this.#capacity = capacity;
    this.#lock = lock;
    this.#onUnpin = onUnpin;
    this.#entries = Math.max(1, Math.min(CACHE_ENTRIES, Math.floor(capacity / SHARE)));
    this.#missesLeft = FIRST_GENERATIONS * this.#entries;
    this.#nextToPass = this.#fewestPassed;
    const strays = names.keepsIdle ? STRAYS : FEW_STRAYS;
    this.#fewStrays = Math.max(1, Math.min(strays, Math.floor(capacity / STRAYS_SHARE)));
    this.#mostStrays = this.#fewStrays;
    this.#strays = new Int32Array(2 * this.#fewStrays);
    this.#searched = names.keepsIdle ? this.#young : undefined;
    this.#toPass = names.keepsIdle ? 0 : Infinity;
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
    if (this.busy > 0) return false;
    this.#empty();
    return true;
  }

  #stripeSlow(key: unknown, name: string): number {
    if (this.busy === 0) this.#trim();
    else if (this.#strayCount > this.#mostStrays + STRAYS || this.#young.size > 2 * this.#entries)
      this.#heal();
    const cached = isRememberable(key, name) && this.#toPass === 0;
    if (cached) {
      const known = this.#lookUp(key);
      if (known !== undefined) return known;
    } else if (this.#toPass > 0 && --this.#toPass === 0) {
      this.#missesLeft = this.#entries;
      this.#searched = this.#young;
    }
    let answer = this.#names.pin(key as LockKey);
    if (answer === NO_STRIPE && this.dropIdle()) answer = this.#names.pin(key as LockKey);
    if (answer === NO_STRIPE) throw this.#exhausted();
    const stripe = answer & STRIPE_MASK;
    if ((answer & CROWDED) !== 0) this.#crowded = true;
    const again = (answer & PINNED_AGAIN) !== 0;
    if (cached && this.#toPass === 0 && !again) this.#young.set(key, stripe);
    // Pinned before, and yet not in the cache: it is a stray or about to be one, and stays that.
    else if (!again || this.#leavingCount === 0) this.#addStray(stripe);
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
    if (this.#leavingCount > 0) this.#leave();
    if (this.#strayCount >= this.#mostStrays) this.#unpinStrays();
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
    this.#end(this.#old);
    this.#end(this.#young);
    this.#toPass = this.#nextToPass;
    const most = Math.max(this.#fewestPassed, MOST_PASSED_GENERATIONS * this.#entries);
    this.#nextToPass = Math.min(2 * this.#nextToPass, most);
  }

  #turnOver(): void {
    this.#end(this.#old);
    const young = this.#old;
    this.#old = this.#young;
    this.#young = young;
    if (this.#searched !== undefined) this.#searched = young;
  }

  /** Empties a generation. Those of its keys that are in use stay pinned, as strays. */
  #end(generation: Map<unknown, number>): void {
    const count = this.#leavingCount + generation.size;
    if (count > this.#leaving.length) {
      const leaving = new Int32Array(count);
      leaving.set(this.#leaving);
      this.#leaving = leaving;
    }
    const leaving = this.#leaving;
    let at = this.#leavingCount;
    for (const stripe of generation.values()) leaving[at++] = stripe;
    // From here on nothing fails. After a stack overflow they are still in the generation, and there alone.
    generation.clear();
    this.#leavingCount = count;
  }

  #leave(most = STRAYS): void {
    const count = Math.min(this.#leavingCount, most);
    this.#reserve(this.#strayCount + count);
    const strays = this.#strays;
    const leaving = this.#leaving;
    for (let i = 0; i < count; i++) strays[this.#strayCount++] = leaving[--this.#leavingCount]!;
  }

  /** The cache ends, at once. */
  #empty(): void {
    this.#end(this.#old);
    this.#end(this.#young);
    this.#leave(Infinity);
    this.#unpinStrays();
  }

  #addStray(stripe: number): void {
    if (this.#strayCount === this.#strays.length) this.#reserve(2 * this.#strayCount);
    this.#strays[this.#strayCount++] = stripe;
  }

  #reserve(count: number): void {
    if (count <= this.#strays.length) return;
    const strays = new Int32Array(count);
    strays.set(this.#strays);
    this.#strays = strays;
  }

  /** Those in use stay strays, and are looked at again when there are a quarter more: so each costs constant time. */
  #unpinStrays(): void {
    this.#onUnpin();
    const kept = this.#names.unpin(this.#strays, this.#strayCount);
    this.#strayCount = kept;
    this.#mostStrays = Math.max(this.#fewStrays, kept + (kept >> 2) + 1);
  }

  /** If {@link busy} was left too high, by the end of a `vm` timeout: in a microtask no acquisition is under way. */
  #heal(): void {
    if (this.#healing) return;
    this.#healing = true;
    defer(() => {
      this.#healing = false;
      this.busy = 0;
    }, undefined);
  }

  /** Whether an acquisition failed for want of a stripe only because it kept idle keys pinned meanwhile. */
  isExhausted(error: unknown): boolean {
    return error === this.#exhaustion && this.busy === 1;
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
