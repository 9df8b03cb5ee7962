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
import { KeyedIndex } from './keyed-index.js';
import { BaseLock } from './base-lock.js';
import { checkKey, ONLY_KEY } from './stripe-index.js';

/**
 * A lock on exact keys. Acquisitions of unequal keys never wait for each other, and a thread that holds one
 * key may acquire another. The number of keys in use is limited. In all other respects, the lock works like a
 * {@link StripedLock}. All threads of a process can use it: pass {@link handle} to a worker, and open it
 * there with {@link KeyedLock.from}. On the JavaScript engine, only the thread that created the lock can use
 * it.
 *
 * The keys `1` and `'1'` are unequal. A string and its bytes are unequal, too. Two arrays of equal bytes are
 * the same key. If {@link capacity} other keys are in use, an acquisition fails with a LockError
 * (ERR_LOCK_CAPACITY) and takes nothing.
 *
 * All threads take keys in the same order, so acquisitions of several keys never deadlock each other. The
 * type parameter `L` is the type of {@link limit}: a literal such as `3` if the compiler knows the limit,
 * otherwise `number`.
 */
export class KeyedLock<L extends number = number> extends BaseLock<KeyedLockMode<L>> {
  /** The maximum number of keys in use at the same time, across all threads. */
  readonly capacity: number;
  /** The maximum number of simultaneous holders of a key; 1 for an exclusive lock. */
  readonly limit: number;
  readonly #opened: OpenedLock;

  /**
   * Creates a lock. Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError
   * (ERR_OUT_OF_RANGE) for bad options.
   */
  constructor(options?: KeyedLockOptions & { limit?: L }) {
    const opened = openKeyed(options);
    const { table, name } = opened;
    const index = new KeyedIndex(table.keys!, table.stripes, name);
    super(opened, index);
    this.capacity = table.stripes;
    this.limit = table.limit;
    this.#opened = opened;
  }

  /**
   * A structured-cloneable object that other threads open with {@link KeyedLock.from}. Once this property has
   * been read, the lock's memory is never reused, because any thread may open the lock later. If the property
   * is never read, the memory can be reused after the lock has been garbage-collected.
   */
  get handle(): KeyedLockHandle {
    return this.#opened.handle as KeyedLockHandle;
  }

  /**
   * Opens an existing lock in another thread, or again in this one. Throws a TypeError for a value that is
   * not the handle of a `KeyedLock`. Throws a LockError (ERR_LOCK_ENGINE) if another thread created the
   * lock on the JavaScript engine.
   */
  static from(handle: KeyedLockHandle): KeyedLock {
    return new KeyedLock(openHandle(KEYED, handle));
  }

  /**
   * The number of keys in use, as a snapshot. A key is in use while a thread holds it. A key also stays in
   * use if the thread of its last holder ended without releasing the key. The cost of reading this property
   * grows with the highest number of keys that have ever been in use at the same time.
   */
  get size(): number {
    return this.#opened.table.keys!.inUse();
  }

  /**
   * A snapshot of the counters of the whole lock, summed over all threads. Other threads keep changing the
   * counters.
   */
  override stats(): KeyedLockStats {
    return { ...this.#opened.table.stats(), capacity: this.capacity };
  }

  /** All keys that any thread holds or waits for. A snapshot, like {@link stats}. */
  inspect(): KeyState[] {
    return this.#opened.table.keys!.inspect();
  }

  /** @internal */
  protected override countsOf(key: LockKey): StripeCounts {
    checkKey(key, ONLY_KEY);
    return this.#opened.table.keys!.counts(key);
  }
}
