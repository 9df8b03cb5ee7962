import type {
  LockKey,
  StripedLockHandle,
  StripedLockOptions,
  StripedLockStats,
  StripeState,
} from '../common/types.js';
import type { StripeCounts } from '../engine/contract/engine.js';
import { openHandle, openStriped, STRIPED, type OpenedLock } from './handle.js';
import { BaseLock } from './base-lock.js';
import { HashedKeys, ONLY_KEY } from './stripe-index.js';

/**
 * A table of locks for keys. Each key maps to one of a fixed number of stripes, and each stripe is a lock.
 * Equal keys share a stripe, and unequal keys may share one. All threads of a process can use the lock: pass
 * {@link handle} to a worker, and open it there with {@link StripedLock.from}.
 *
 * Every acquisition of several keys takes their stripes in ascending order. So these acquisitions never
 * deadlock each other.
 */
export class StripedLock extends BaseLock {
  /** The number of stripes. */
  readonly stripes: number;
  readonly #opened: OpenedLock;
  readonly #index: HashedKeys;

  /**
   * Creates a lock. Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError
   * (ERR_OUT_OF_RANGE) for bad options.
   */
  constructor(options?: StripedLockOptions) {
    const opened = openStriped(options);
    const { table } = opened;
    const index = new HashedKeys(table.stripes, (key) => table.hash(key));
    super(opened, index);
    this.stripes = table.stripes;
    this.#opened = opened;
    this.#index = index;
  }

  /**
   * A structured-cloneable object that other threads open with {@link StripedLock.from}. Once this property
   * has been read, the lock's memory is never reused, because any thread may open the lock later. If the
   * property is never read, the memory can be reused after the lock has been garbage-collected.
   */
  get handle(): StripedLockHandle {
    return this.#opened.handle as StripedLockHandle;
  }

  /**
   * Opens an existing lock in another thread, or again in this one. Throws a TypeError for a value that is
   * not the handle of a `StripedLock`.
   */
  static from(handle: StripedLockHandle): StripedLock {
    return new StripedLock(openHandle(STRIPED, handle));
  }

  /**
   * The stripe of a key, from 0 to `stripes - 1`. On the native engine, the stripe of a string or of bytes
   * is XXH3-64(bytes) mod stripes.
   */
  stripeOf(key: LockKey): number {
    return this.#index.stripeOf(key, ONLY_KEY);
  }

  /**
   * A snapshot of the counters of the whole lock, summed over all threads. Other threads keep changing the
   * counters.
   */
  override stats(): StripedLockStats {
    return this.#opened.table.stats();
  }

  /** All stripes that any thread holds or waits for, in ascending order. A snapshot, like {@link stats}. */
  inspect(): StripeState[] {
    return this.#opened.table.inspect();
  }

  /** @internal */
  protected override countsOf(key: LockKey): StripeCounts {
    return this.#opened.table.counts(this.stripeOf(key));
  }
}
