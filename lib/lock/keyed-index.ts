import { LockError } from '../common/errors.js';
import type { LockKey } from '../common/types.js';
import { NO_STRIPE, type ExactKeys } from '../engine/contract/exact-keys.js';
import { PinnedKeys } from './pinned-keys.js';
import type { StripeCache } from './stripe-cache.js';
import { checkKey, ONLY_KEY, type KeyIndex } from './stripe-index.js';

/**
 * Finds the stripes of a `KeyedLock`'s keys in one thread. The index pins each key before it returns the
 * key's stripe: see {@link PinnedKeys}.
 */
export class KeyedIndex implements KeyIndex {
  readonly #pinned: PinnedKeys;
  readonly #cache: StripeCache;
  readonly #capacity: number;
  readonly #lock: string;
  readonly #hint: string;

  /** `hint`: the end of the error message for a key without a stripe. */
  constructor(keys: ExactKeys, capacity: number, lock: string, hint = ' (option capacity)') {
    this.#pinned = PinnedKeys.of(keys, capacity);
    this.#cache = this.#pinned.cache;
    this.#capacity = capacity;
    this.#lock = lock;
    this.#hint = hint;
  }

  get unpins(): number {
    return this.#pinned.unpins;
  }

  /**
   * The stripe of a key. If no stripe is left for a key of a list, returns {@link NO_STRIPE}. If no stripe is
   * left for the only key of an acquisition, throws a LockError (ERR_LOCK_CAPACITY).
   */
  stripeOf(key: unknown, at: number): number {
    const stripe = this.#cache.searched?.get(key);
    return stripe !== undefined && stripe >= 0 ? stripe : this.#stripeSlow(key, at);
  }

  /**
   * The stripes of a list of keys. If no stripe is left for a key, this method unpins idle stripes. Then it
   * looks up all keys again, because keys that it had already looked up may have been unpinned, too. The
   * first such attempt unpins only idle stripes that were pinned recently. The second attempt unpins all idle
   * stripes. If a key still has no stripe, the method throws a LockError (ERR_LOCK_CAPACITY).
   */
  stripesOf(keys: readonly unknown[]): number[] {
    this.#pinned.trim();
    const stripes = new Array<number>(keys.length);
    let attempts = 0;
    for (let i = 0; i < keys.length; i++) {
      stripes[i] = this.stripeOf(keys[i], i);
      if (stripes[i] !== NO_STRIPE) continue;
      if (attempts > 1) throw this.#exhausted();
      this.#pinned.unpinIdle(attempts++ === 1);
      i = -1;
    }
    return stripes;
  }

  keep(stripes: readonly number[]): void {
    this.#pinned.keep(stripes);
  }

  end(): void {
    this.#pinned.end();
  }

  #stripeSlow(key: unknown, at: number): number {
    checkKey(key, at);
    const stripe = this.#pinned.stripeOf(key as LockKey, at === ONLY_KEY);
    return stripe === NO_STRIPE && at === ONLY_KEY ? this.stripesOf([key])[0]! : stripe;
  }

  #exhausted(): LockError {
    const lock = this.#lock === '' ? 'lock' : `lock ${JSON.stringify(this.#lock)}`;
    return new LockError(
      'ERR_LOCK_CAPACITY',
      `${lock}: no room for another key, as ${this.#capacity} are in use${this.#hint}`,
    );
  }
}
