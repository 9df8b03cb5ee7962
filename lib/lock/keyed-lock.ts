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
 * A lock on exact keys: unequal keys never wait for each other, and a thread that holds one may acquire another. Apart
 * from the limited number of keys, it works like {@link StripedLock}. Any number of threads of one process can use it:
 * pass {@link handle} to a worker and open it there with {@link KeyedLock.from}. On the JavaScript engine, only the
 * thread that created the lock can use it.
 *
 * The keys `1` and `'1'` differ, and so do a string and its bytes, and any two unequal strings. Equal bytes are the
 * same key. If {@link capacity} other keys are in use, an acquisition fails with a LockError (ERR_LOCK_CAPACITY) and
 * takes nothing.
 *
 * All threads take the keys of an acquisition in the same order, so acquisitions of several keys never deadlock each
 * other. `L`: the lock's {@link limit}, if the types know it.
 */
export class KeyedLock<L extends number = number> extends BaseLock<KeyedLockMode<L>> {
  /** The maximum number of keys in use at once, across all threads. */
  readonly capacity: number;
  /** The number of acquisitions that may hold a key at once; 1 for an exclusive lock. */
  readonly limit: number;
  readonly #opened: OpenedLock;

  /** Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options. */
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
   * Structured-cloneable: post it to another thread, and open it there with {@link KeyedLock.from}. If the handle is never
   * read, the lock's memory can be reused after the lock has been garbage-collected.
   */
  get handle(): KeyedLockHandle {
    return this.#opened.handle as KeyedLockHandle;
  }

  /**
   * Opens the same lock in another thread, or again in this one. Throws a TypeError for a value that is not the handle
   * of a `KeyedLock`, and a LockError (ERR_LOCK_ENGINE) if another thread created the lock on the JavaScript engine.
   */
  static from(handle: KeyedLockHandle): KeyedLock {
    return new KeyedLock(openHandle(KEYED, handle));
  }

  /**
   * The number of keys in use: those that any thread holds, and those whose last holder's thread ended without
   * releasing them. A snapshot. Its cost grows with the highest number of keys that were ever in use at once.
   */
  get size(): number {
    return this.#opened.table.keys!.inUse();
  }

  /** Counters of the whole lock, for all threads together. A snapshot, because other threads continue. */
  override stats(): KeyedLockStats {
    return { ...this.#opened.table.stats(), capacity: this.capacity };
  }

  /** Every key that any thread holds or waits for. A snapshot, like {@link stats}. */
  inspect(): KeyState[] {
    return this.#opened.table.keys!.inspect();
  }

  /** @internal */
  protected override countsOf(key: LockKey): StripeCounts {
    checkKey(key, ONLY_KEY);
    return this.#opened.table.keys!.counts(key);
  }
}
