import { resolved } from '../common/host.js';
import type {
  AcquireOptions,
  AsyncAcquireOptions,
  KeyedLockHandle,
  KeyedLockMode,
  KeyedLockOptions,
  KeyState,
  LockKey,
  LockMode,
  StripedLockStats,
} from '../common/types.js';
import type { LockTable } from '../engine/contract/engine.js';
import { EXCLUSIVE_MODE, hasPermits, type Mode } from '../engine/contract/mode.js';
import { FastPath } from '../engine/fast-path.js';
import { isList } from './arguments.js';
import { BaseLock } from './base-lock.js';
import { GeneralPath, type EntryMethods } from './general-path.js';
import { createGuard, tryTake, type Guard } from './guard.js';
import { OpenedLock, openedKeyedLock } from './handle.js';
import { KeySets } from './key-set.js';
import { ExactKeyIndex } from './exact-key-index.js';
import { modeIn } from './options.js';
import { attempt, block, wait } from './slow-path.js';
import { LockContext } from './terms.js';

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
export class KeyedLock<L extends number = number> extends BaseLock<KeyedLockMode<L>> {
  /** Most keys in use at once, over all threads. */
  readonly capacity: number;
  /** How many may hold a key at once; 1 for an exclusive lock. */
  readonly limit: number;
  readonly #opened: OpenedLock;
  readonly #table: LockTable;
  readonly #path: FastPath;
  readonly #index: ExactKeyIndex;
  /** No acquisition is plain: it is traced, or takes a permit. */
  readonly #special: boolean;
  readonly #context: LockContext;
  readonly #general: GeneralPath;

  /** Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options. */
  constructor(options?: KeyedLockOptions & { limit?: L }) {
    const opened = openedKeyedLock(options);
    const { table, name, timeout, trace } = opened;
    super(name, timeout, table.engine);
    this.capacity = table.stripes;
    this.limit = table.limit;
    this.#opened = opened;
    this.#table = table;
    this.#path = new FastPath(table);
    this.#special = trace || hasPermits(table.limit);
    const index = new ExactKeyIndex(table.names!, table.stripes, name, () => sets.forget());
    const sets = new KeySets(index);
    this.#index = index;
    this.#context = new LockContext(name, table, trace, timeout, index);
    this.#general = new GeneralPath(this.#context, this.#path, timeout, index, sets, METHODS);
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
    return new KeyedLock(OpenedLock.ofKeyed(handle));
  }

  /**
   * Keys in use now: those that any thread holds, and those whose last holder's thread ended without releasing them. A
   * snapshot that looks at every key that was ever in use at the same time as others.
   */
  get size(): number {
    return this.#table.names!.inUse();
  }

  // In each of these three, no code of the program runs between the look-up of a key and the moment when its stripe is
  // taken or waited for, or the acquisition is busy (keeps N4, see ExactKeyIndex).

  override acquire<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: AsyncAcquireOptions<M> & { mode?: KeyedLockMode<L> },
  ): Promise<Guard<K, M>> {
    try {
      if (options !== undefined || this.#special || typeof keys === 'object') {
        return this.#acquireGeneral(keys, options);
      }
      const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, 'key'), EXCLUSIVE_MODE);
      this.#table.acquiringAsync();
      return tryTake(guard) ? resolved(guard) : wait(this.#context, guard, this.timeout, undefined);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  override acquireSync<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: AcquireOptions<M> & { mode?: KeyedLockMode<L> },
  ): Guard<K, M> {
    if (options !== undefined || this.#special || typeof keys === 'object') {
      return this.#acquireSyncGeneral(keys, options);
    }
    const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, 'key'), EXCLUSIVE_MODE);
    return tryTake(guard) ? guard : block(this.#context, guard, this.timeout);
  }

  override tryAcquire<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: { mode?: M & KeyedLockMode<L> },
  ): Guard<K, M> | undefined {
    const mode = this.#special ? this.#general.modeIn(options) : modeIn(options);
    if (this.#special || isList(keys)) return this.#tryAcquireGeneral(keys, mode);
    const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, 'key'), mode);
    return tryTake(guard) ? guard : attempt(this.#context, guard);
  }

  /**
   * Counters of the whole lock, all threads together. A snapshot, as other threads continue meanwhile. `stripes` is the
   * {@link capacity}, and `held` counts keys.
   */
  stats(): StripedLockStats {
    return this.#table.stats();
  }

  /** Every key that is held or waited for, by any thread. A snapshot, as in {@link stats}. */
  inspect(): KeyState[] {
    return this.#table.names!.inspect();
  }

  #acquireSyncGeneral<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AcquireOptions<M> | undefined,
  ): Guard<K, M> {
    const index = this.#index;
    for (let first = true; ; first = false) {
      index.begin();
      try {
        return this.#general.takeSync(keys, options);
      } catch (error) {
        if (!first || !index.isExhausted(error)) throw error;
      } finally {
        index.busy--;
      }
      index.dropIdle();
    }
  }

  #acquireGeneral<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AsyncAcquireOptions<M> | undefined,
  ): Promise<Guard<K, M>> {
    const index = this.#index;
    for (let first = true; ; first = false) {
      index.begin();
      try {
        return this.#general.take(keys, options);
      } catch (error) {
        if (!first || !index.isExhausted(error)) throw error;
      } finally {
        index.busy--;
      }
      index.dropIdle();
    }
  }

  #tryAcquireGeneral<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    mode: Mode,
  ): Guard<K, M> | undefined {
    const index = this.#index;
    for (let first = true; ; first = false) {
      index.begin();
      try {
        return this.#general.tryTake(keys, mode);
      } catch (error) {
        if (!first || !index.isExhausted(error)) throw error;
      } finally {
        index.busy--;
      }
      index.dropIdle();
    }
  }
}

const { acquire, acquireSync, tryAcquire } = KeyedLock.prototype as unknown as EntryMethods;
const METHODS: EntryMethods = { acquire, acquireSync, tryAcquire };
