import { LockError } from '../common/errors.js';
import type { LockKey } from '../common/types.js';
import { NO_STRIPE, type ExactKeys } from '../engine/contract/exact-keys.js';
import { PinnedKeys } from './pinned-keys.js';
import type { StripeCache } from './stripe-cache.js';
import { checkKey, ONLY_KEY, type KeyIndex } from './stripe-index.js';

/** How one `KeyedLock` finds the stripes of its keys: among those that its thread has pinned. */
export class KeyedIndex implements KeyIndex {
  readonly #pinned: PinnedKeys;
  readonly #cache: StripeCache;
  readonly #capacity: number;
  readonly #lock: string;
  /** The error that was thrown last because no stripe was left. */
  #exhaustion: LockError | undefined = undefined;

  constructor(keys: ExactKeys, capacity: number, lock: string) {
    this.#pinned = PinnedKeys.of(keys, capacity);
    this.#cache = this.#pinned.cache;
    this.#capacity = capacity;
    this.#lock = lock;
  }

  get unpins(): number {
    return this.#pinned.unpins;
  }

  /** Also throws a LockError (ERR_LOCK_CAPACITY) if no stripe is left for the key. */
  stripeOf(key: unknown, name: string): number {
    const stripe = this.#cache.searched?.get(key);
    return stripe !== undefined && stripe >= 0 ? stripe : this.#stripeSlow(key, name);
  }

  begin(): void {
    this.#pinned.begin();
  }

  keep(stripes: readonly number[]): void {
    this.#pinned.keep(stripes);
  }

  end(): void {
    this.#pinned.end();
  }

  makeRoom(error: unknown, attempt: number): boolean {
    if (error !== this.#exhaustion || attempt > 1) return false;
    // The failed acquisition's lookups are now invalid.
    this.#pinned.unpinIdle(attempt === 1);
    return true;
  }

  #stripeSlow(key: unknown, name: string): number {
    checkKey(key, name);
    const stripe = this.#pinned.stripeOf(key as LockKey, name === ONLY_KEY);
    if (stripe === NO_STRIPE) throw this.#exhausted();
    return stripe;
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
