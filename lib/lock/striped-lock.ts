import { resolved } from '../common/host.js';
import type {
  AcquireOptions,
  AsyncAcquireOptions,
  LockKey,
  LockMode,
  StripedLockHandle,
  StripedLockOptions,
  StripedLockStats,
  StripeState,
} from '../common/types.js';
import type { LockTable } from '../engine/contract/engine.js';
import { EXCLUSIVE_MODE } from '../engine/contract/mode.js';
import { FastPath } from '../engine/fast-path.js';
import { isList } from './arguments.js';
import { BaseLock } from './base-lock.js';
import { GeneralPath, type EntryMethods } from './general-path.js';
import { createGuard, tryTake, type Guard } from './guard.js';
import { OpenedLock, openedLock } from './handle.js';
import { KeySets } from './key-set.js';
import { modeIn } from './options.js';
import { attempt, block, wait } from './slow-path.js';
import { StripeIndex } from './stripe-index.js';
import { LockContext } from './terms.js';

/**
 * A table of locks for keys: each key maps to one of a fixed number of stripes, and each stripe is a lock.
 * Equal keys share a stripe; unequal keys may. Any number of threads of one process can use it: pass
 * {@link handle} to a worker and open it there with {@link StripedLock.from}.
 *
 * An acquisition of several keys takes their stripes in ascending order, so that such acquisitions never
 * deadlock each other.
 */
export class StripedLock extends BaseLock {
  /** Number of stripes. */
  readonly stripes: number;
  readonly #opened: OpenedLock;
  readonly #table: LockTable;
  readonly #path: FastPath;
  readonly #index: StripeIndex;
  readonly #trace: boolean;
  readonly #context: LockContext;
  readonly #general: GeneralPath;

  /** Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options. */
  constructor(options?: StripedLockOptions) {
    const opened = openedLock(options);
    const { table, name, timeout, trace } = opened;
    super(name, timeout, table.engine);
    this.stripes = table.stripes;
    this.#opened = opened;
    this.#table = table;
    this.#path = new FastPath(table);
    this.#trace = trace;
    const index = new StripeIndex(table.stripes, (key) => table.hash(key));
    this.#index = index;
    this.#context = new LockContext(name, table, trace, timeout, index);
    this.#general = new GeneralPath(this.#context, this.#path, timeout, index, new KeySets(index), METHODS);
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
    return new StripedLock(OpenedLock.ofStriped(handle));
  }

  /** The stripe a key maps to, 0 … stripes-1. Native engine, string or bytes: XXH3-64(bytes) mod stripes. */
  stripeOf(key: LockKey): number {
    return this.#index.stripeOf(key, 'key');
  }

  override acquire<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: AsyncAcquireOptions<M>,
  ): Promise<Guard<K, M>> {
    try {
      if (options !== undefined || this.#trace || typeof keys === 'object') {
        return this.#general.take(keys, options);
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
    options?: AcquireOptions<M>,
  ): Guard<K, M> {
    if (options !== undefined || this.#trace || typeof keys === 'object') {
      return this.#general.takeSync(keys, options);
    }
    const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, 'key'), EXCLUSIVE_MODE);
    return tryTake(guard) ? guard : block(this.#context, guard, this.timeout);
  }

  override tryAcquire<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: { mode?: M },
  ): Guard<K, M> | undefined {
    const mode = modeIn(options);
    if (this.#trace || isList(keys)) return this.#general.tryTake(keys, mode);
    const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, 'key'), mode);
    return tryTake(guard) ? guard : attempt(this.#context, guard);
  }

  /** Counters of the whole lock, all threads together. A snapshot, as other threads continue meanwhile. */
  stats(): StripedLockStats {
    return this.#table.stats();
  }

  /** Every stripe that is held or waited for, by any thread, ascending. A snapshot, as in {@link stats}. */
  inspect(): StripeState[] {
    return this.#table.inspect();
  }
}

const { acquire, acquireSync, tryAcquire } = StripedLock.prototype as unknown as EntryMethods;
const METHODS: EntryMethods = { acquire, acquireSync, tryAcquire };
