import type {
  LockKey,
  StripedLockHandle,
  StripedLockOptions,
  StripedLockStats,
  StripeState,
} from '../common/types.js';
import type { StripeCounts } from '../engine/contract/engine.js';
import { openHandle, openStriped, STRIPED, type OpenedLock } from './handle.js';
import { KeySets } from './key-set.js';
import { LockOnKeys } from './lock-on-keys.js';
import { HashedKeys } from './stripe-index.js';

/**
 * A table of locks for keys: each key maps to one of a fixed number of stripes, and each stripe is a lock.
 * Equal keys share a stripe; unequal keys may. Any number of threads of one process can use it: pass
 * {@link handle} to a worker and open it there with {@link StripedLock.from}.
 *
 * An acquisition of several keys takes their stripes in ascending order, so that such acquisitions never
 * deadlock each other.
 */
export class StripedLock extends LockOnKeys {
  /** Number of stripes. */
  readonly stripes: number;
  readonly #opened: OpenedLock;
  readonly #index: HashedKeys;

  /** Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options. */
  constructor(options?: StripedLockOptions) {
    const opened = openStriped(options);
    const { table } = opened;
    const index = new HashedKeys(table.stripes, (key) => table.hash(key));
    super(opened, index, new KeySets(index));
    this.stripes = table.stripes;
    this.#opened = opened;
    this.#index = index;
  }

  /**
   * Structured-cloneable; see {@link StripedLock.from}. The memory of a lock whose handle was never read can become another
   * lock's once nobody has this one any more.
   */
  get handle(): StripedLockHandle {
    return this.#opened.handle as StripedLockHandle;
  }

  /** The same lock, in another thread (or again in this one). Throws a TypeError if that is not a handle. */
  static from(handle: StripedLockHandle): StripedLock {
    return new StripedLock(openHandle(STRIPED, handle));
  }

  /** The stripe a key maps to, 0 … stripes-1. Native engine, string or bytes: XXH3-64(bytes) mod stripes. */
  stripeOf(key: LockKey): number {
    return this.#index.stripeOf(key, 'key');
  }

  /** Counters of the whole lock, all threads together. A snapshot, as other threads continue meanwhile. */
  override stats(): StripedLockStats {
    return this.#opened.table.stats();
  }

  /** Every stripe that is held or waited for, by any thread, ascending. A snapshot, as in {@link stats}. */
  inspect(): StripeState[] {
    return this.#opened.table.inspect();
  }

  /** @internal */
  protected override countsOf(key: LockKey): StripeCounts {
    return this.#opened.table.counts(this.stripeOf(key));
  }
}
