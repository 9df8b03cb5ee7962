import { callArguments } from '../common/checks.js';
import { invalidArgType } from '../common/errors.js';
import { defer, resolved } from '../common/host.js';
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
import { EXCLUSIVE_MODE, type Mode } from '../engine/contract/mode.js';
import { FastPath } from '../engine/fast-path.js';
import type { LockContext } from './acquisition.js';
import { isList, isThenable } from './arguments.js';
import { createGuard, createGuardOfSet, giveUp, tryTake, type Guard } from './guard.js';
import { OpenedLock, openedLock } from './handle.js';
import { KeySets } from './key-set.js';
import { modeIn, signalIn, timeoutIn } from './options.js';
import { attempt, block, showHeld, wait, type GoOn } from './slow-path.js';
import { StripeIndex } from './stripe-index.js';
import { traceCall, type EntryPoints } from './trace.js';

type How = 'sync' | 'try' | 'async';

/**
 * A table of locks for keys: each key maps to one of a fixed number of stripes, and each stripe is a lock.
 * Equal keys share a stripe; unequal keys may. Any number of threads of one process can use it: pass
 * {@link handle} to a worker and open it there with {@link StripedLock.from}.
 *
 * An acquisition of several keys takes their stripes in ascending order, so that such acquisitions never
 * deadlock each other.
 */
export class StripedLock {
  /** Shown in errors, {@link inspect} and diagnostics. */
  readonly name: string;
  /** Number of stripes. */
  readonly stripes: number;
  /** Default time allowed for one whole acquisition, in milliseconds. */
  readonly timeout: number;
  /** Which engine the lock runs on, in all threads. */
  readonly engine: 'native' | 'javascript';
  readonly #opened: OpenedLock;
  readonly #table: LockTable;
  readonly #path: FastPath;
  readonly #index: StripeIndex;
  readonly #sets: KeySets;
  readonly #trace: boolean;
  readonly #context: LockContext;

  /** Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options. */
  constructor(options?: StripedLockOptions) {
    const opened = openedLock(options);
    const { table } = opened;
    this.name = opened.name;
    this.stripes = table.stripes;
    this.timeout = opened.timeout;
    this.engine = table.engine;
    this.#opened = opened;
    this.#table = table;
    this.#path = new FastPath(table);
    this.#trace = opened.trace;
    this.#context = { name: opened.name, table, trace: opened.trace };
    this.#index = new StripeIndex(table.stripes, (key) => table.hash(key));
    this.#sets = new KeySets(this.#index);
  }

  /**
   * Structured-cloneable; see {@link StripedLock.from}. The memory of a lock whose handle was never read can become another
   * lock's once nobody has this one any more.
   */
  get handle(): StripedLockHandle {
    return this.#opened.handle;
  }

  /** The same lock, in another thread (or again in this one). Throws a TypeError if that is not a handle. */
  static from(handle: StripedLockHandle): StripedLock {
    return new StripedLock(OpenedLock.from(handle));
  }

  /** The stripe a key maps to, 0 … stripes-1. Native engine, string or bytes: XXH3-64(bytes) mod stripes. */
  stripeOf(key: LockKey): number {
    return this.#index.stripeOf(key, 'key');
  }

  /**
   * All keys or none, under one deadline, without blocking this thread. Keeps the event loop alive while it
   * waits. Rejects with a LockTimeoutError or with signal.reason; with a RangeError (ERR_OUT_OF_RANGE) for more than
   * 1,048,576 keys.
   */
  acquire<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: AsyncAcquireOptions<M>,
  ): Promise<Guard<K, M>> {
    try {
      if (options !== undefined || this.#trace || typeof keys === 'object') {
        return this.#acquireGeneral(keys, options);
      }
      const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, 'key'), EXCLUSIVE_MODE);
      this.#table.acquiringAsync();
      return tryTake(guard) ? resolved(guard) : wait(this.#context, guard, this.timeout, undefined);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * The same, blocking this thread. Throws a LockTimeoutError, or a DeadlockError if waiting could never end, also if
   * this same thread holds a key's stripe through any guard.
   */
  acquireSync<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: AcquireOptions<M>,
  ): Guard<K, M> {
    if (options !== undefined || this.#trace || typeof keys === 'object') {
      return this.#acquireSyncGeneral(keys, options);
    }
    const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, 'key'), EXCLUSIVE_MODE);
    return tryTake(guard) ? guard : block(this.#context, guard, this.timeout);
  }

  /** Makes one attempt and never waits. Undefined if the keys are not free. */
  tryAcquire<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: { mode?: M },
  ): Guard<K, M> | undefined {
    const mode = modeIn(options);
    if (this.#trace || isList(keys)) {
      return this.#take(this.#prepare<K, M>('try', keys, mode), 0, undefined, attempt);
    }
    const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, 'key'), mode);
    return tryTake(guard) ? guard : attempt(this.#context, guard);
  }

  /** Runs fn while holding the keys; releases however fn ends. */
  withLock<T, K extends LockKey>(
    keys: K | readonly K[],
    fn: (guard: Guard<K, 'exclusive'>) => T | PromiseLike<T>,
  ): Promise<T>;
  withLock<T, K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options: AsyncAcquireOptions<M>,
    fn: (guard: Guard<K, M>) => T | PromiseLike<T>,
  ): Promise<T>;
  async withLock<T, K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    optionsOrFn: AsyncAcquireOptions<M> | ((guard: Guard<K, M>) => T | PromiseLike<T>),
    maybeFn?: (guard: Guard<K, M>) => T | PromiseLike<T>,
  ): Promise<T> {
    const [options, fn] = callArguments<AsyncAcquireOptions<M>, (guard: Guard<K, M>) => T | PromiseLike<T>>(
      optionsOrFn,
      maybeFn,
    );
    const guard = await this.acquire<K, M>(keys, options);
    try {
      return await fn(guard);
    } finally {
      guard.release();
    }
  }

  /** Blocks this thread until it holds the keys. Throws a TypeError, after releasing, if fn returns a promise. */
  withLockSync<T, K extends LockKey>(keys: K | readonly K[], fn: (guard: Guard<K, 'exclusive'>) => T): T;
  withLockSync<T, K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options: AcquireOptions<M>,
    fn: (guard: Guard<K, M>) => T,
  ): T;
  withLockSync<T, K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    optionsOrFn: AcquireOptions<M> | ((guard: Guard<K, M>) => T),
    maybeFn?: (guard: Guard<K, M>) => T,
  ): T {
    const [options, fn] = callArguments<AcquireOptions<M>, (guard: Guard<K, M>) => T>(optionsOrFn, maybeFn);
    const guard = this.acquireSync<K, M>(keys, options);
    let result: T;
    let thenable: boolean;
    try {
      result = fn(guard);
      thenable = isThenable(result);
    } finally {
      try {
        guard.release();
      } catch {
        // After a stack overflow nobody else has the guard, so this must release it.
        defer(() => guard.release(), undefined);
      }
    }
    if (thenable) {
      throw invalidArgType('fn', 'a function that does its work before it returns (use withLock)', fn);
    }
    return result;
  }

  /** Counters of the whole lock, all threads together. A snapshot, as other threads continue meanwhile. */
  stats(): StripedLockStats {
    return this.#table.stats();
  }

  /** Every stripe that is held or waited for, by any thread, ascending. A snapshot, as in {@link stats}. */
  inspect(): StripeState[] {
    return this.#table.inspect();
  }

  /** Checks the keys and finds their stripes; takes nothing. */
  #prepare<K extends LockKey, M extends LockMode>(how: How, keys: K | readonly K[], mode: Mode): Guard<K, M> {
    const path = this.#path;
    const guard = isList(keys)
      ? createGuardOfSet<K, M>(path, this.#sets.setOf(keys), mode)
      : createGuard<K, M>(path, keys, this.#index.stripeOf(keys, 'key'), mode);
    if (this.#trace) traceCall(guard, guard.keys, this.#entryPoints(how));
    return guard;
  }

  #entryPoints(how: How): EntryPoints {
    if (how === 'sync') return { inner: this.#acquireSyncGeneral, method: acquireSync, outer: withLockSync };
    if (how === 'async') return { inner: this.#acquireGeneral, method: acquire, outer: withLock };
    return { inner: tryAcquire, method: tryAcquire, outer: undefined };
  }

  /** The part of {@link acquireSync} that is a separate function, so that V8 can inline the rest. */
  #acquireSyncGeneral<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AcquireOptions<M> | undefined,
  ): Guard<K, M> {
    const mode = modeIn(options);
    const timeout = timeoutIn(options, this.timeout);
    if (this.#trace || isList(keys)) {
      return this.#take(this.#prepare<K, M>('sync', keys, mode), timeout, undefined, block);
    }
    const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, 'key'), mode);
    return tryTake(guard) ? guard : block(this.#context, guard, timeout);
  }

  /**
   * Takes the stripes of a guard: by the fast path or, if that does not get all, by `goOn`. If this throws, it gives back
   * what was taken: now or, after a stack overflow, from the microtask queue. (That code is in place: calling a function for
   * it may overflow, too, as V8 may have to compile it first. Keeps T1.) A guard of one stripe that is not traced does
   * without: it has nothing until the last step.
   */
  #take<G extends Guard, R>(
    guard: G,
    timeout: number,
    signal: AbortSignal | undefined,
    goOn: GoOn<G, R>,
  ): G | R {
    // If this throws, the guard has nothing yet. No function is called between this and the try block.
    const all = tryTake(guard);
    if (all && !this.#trace) return guard;
    try {
      if (!all) return goOn(this.#context, guard, timeout, signal);
      showHeld(this.#context, guard);
    } catch (error) {
      try {
        giveUp(guard);
      } catch {
        defer(() => giveUp(guard), undefined);
      }
      throw error;
    }
    return guard;
  }

  #acquireGeneral<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AsyncAcquireOptions<M> | undefined,
  ): Promise<Guard<K, M>> {
    const mode = modeIn(options);
    const timeout = timeoutIn(options, this.timeout);
    const signal = signalIn(options);
    const guard = this.#prepare<K, M>('async', keys, mode);
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    this.#table.acquiringAsync();
    const taken = this.#take(guard, timeout, signal, wait);
    return taken === guard ? resolved(guard) : (taken as Promise<Guard<K, M>>);
  }
}

/** As they are at import: a program may replace them by functions that call these. */
const { acquire, acquireSync, tryAcquire, withLock, withLockSync } =
  StripedLock.prototype as unknown as Record<
    'acquire' | 'acquireSync' | 'tryAcquire' | 'withLock' | 'withLockSync',
    EntryPoints['inner']
  >;
