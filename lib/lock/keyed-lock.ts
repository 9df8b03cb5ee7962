import type {
  KeyedLockHandle,
  KeyedLockMode,
  KeyedLockOptions,
  KeyedLockStats,
  KeyState,
  LockKey,
} from '../common/types.js';
import type { StripeCounts } from '../engine/contract/engine.js';
import { KEYED, openHandle, openKeyed, type OpenedLock } from './handle.js';
import { KeySets } from './key-set.js';
import { KeyedIndex } from './keyed-index.js';
import { LockOnKeys } from './lock-on-keys.js';
import { checkKey, ONLY_KEY } from './stripe-index.js';

/**
 * Locks on exact keys: unequal keys never wait for each other, and one may be acquired while another is held. Otherwise as
 * {@link StripedLock}, which has no limit of keys. Any number of threads of one process can use it: pass {@link handle}
 * to a worker and open it there with {@link KeyedLock.from}. On the JavaScript engine it is for the thread that made it.
 *
 * The keys `1` and `'1'` differ, and so do a string and its bytes, and any two strings that are not equal. Equal bytes are
 * one key. An acquisition fails with a LockError (ERR_LOCK_CAPACITY) and takes nothing if {@link capacity} other keys are in
 * use.
 *
 * Acquisitions of several keys take them in one order in all threads, so that they never deadlock each other. `L`: its
 * {@link limit}, where the types know it.
 */
export class KeyedLock<L extends number = number> extends LockOnKeys<KeyedLockMode<L>> {
  /** Most keys in use at once, over all threads. */
  readonly capacity: number;
  /** How many may hold a key at once; 1 for an exclusive lock. */
  readonly limit: number;
  readonly #opened: OpenedLock;

  /** Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options. */
  constructor(options?: KeyedLockOptions & { limit?: L }) {
    const opened = openKeyed(options);
    const { table, name } = opened;
    const index = new KeyedIndex(table.keys!, table.stripes, name);
    super(opened, index, new KeySets(index));
    this.capacity = table.stripes;
    this.limit = table.limit;
    this.#opened = opened;
  }

  /**
   * Structured-cloneable; see {@link KeyedLock.from}. The memory of a lock whose handle was never read can become another
   * lock's once nobody has this one any more.
   */
  get handle(): KeyedLockHandle {
    return this.#opened.handle as KeyedLockHandle;
  }

  /**
   * The same lock, in another thread (or again in this one). Throws a TypeError if that is not a handle, and a LockError
   * (ERR_LOCK_ENGINE) for a lock that another thread made on the JavaScript engine.
   */
  static from(handle: KeyedLockHandle): KeyedLock {
    return new KeyedLock(openHandle(KEYED, handle));
  }

  /**
   * Keys in use now: those that any thread holds, and those whose last holder's thread ended without releasing them. A
   * snapshot that looks at every key that was ever in use at the same time as others.
   */
  get size(): number {
    return this.#opened.table.keys!.inUse();
  }

  /**
   * Counters of the whole lock, all threads together. A snapshot, as other threads continue meanwhile.
   */
  override stats(): KeyedLockStats {
    return { ...this.#opened.table.stats(), capacity: this.capacity };
  }

  /** Every key that is held or waited for, by any thread. A snapshot, as in {@link stats}. */
  inspect(): KeyState[] {
    return this.#opened.table.keys!.inspect();
  }

  /** @internal */
  protected override countsOf(key: LockKey): StripeCounts {
    checkKey(key, ONLY_KEY);
    return this.#opened.table.keys!.counts(key);
  }
}
