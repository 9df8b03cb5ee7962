import { threadId } from 'node:worker_threads';
import { inspect, type InspectOptions } from 'node:util';
import {
  callArguments,
  checkOptionsObject,
  checkSignal,
  checkTimeout,
  type Names,
} from '../common/checks.js';
import { acquireStart, acquireTracing, shownKeys, type AcquireMessage } from '../common/diagnostics.js';
import { notDrained } from '../common/errors.js';
import { defer, performance, resolved } from '../common/host.js';
import { pause } from '../common/timers.js';
import { isThenable, releasedTooEarly, runHeld } from '../common/run-held.js';
import { threadBound } from '../common/thread-bound.js';
import type {
  AcquireOptions,
  AsyncAcquireOptions,
  DrainedOptions,
  LockKey,
  LockMode,
  OneKeyState,
  StripedLockStats,
  SyncResult,
} from '../common/types.js';
import type { LockTable, StripeCounts } from '../engine/contract/engine.js';
import { HOLDER_MASK } from '../engine/contract/lock-word.js';
import { EXCLUSIVE_MODE, hasPermits, modeOfWord, type Mode } from '../engine/contract/mode.js';
import { FastPath } from '../engine/fast-path.js';
import {
  attempt,
  block,
  LockContext,
  recordHeld,
  wait,
  type Continue,
  type FileTerms,
} from './acquisition.js';
import { createGuard, createGuardOfSet, stripesOf, tryTake, type Guard } from './guard.js';
import type { OpenedLock } from './handle.js';
import { KeySets } from './key-set.js';
import {
  ACQUISITION,
  ATTEMPT,
  checkAttemptNames,
  checkNamesOfWait,
  checkSyncOptions,
  modeIn,
  permitModeIn,
  signalIn,
  SYNC_ACQUISITION,
  timeoutIn,
} from './options.js';
import { isList, ONLY_KEY, type KeyIndex } from './stripe-index.js';
import { methodsOf, traceCall, type EntryPoints } from './trace.js';

const THREAD_BOUND = threadBound('lock', 'pass lock.handle instead, and open it there with from()');

const DRAINED: Names<DrainedOptions> = { timeout: true, signal: true };
/**
 * The first and the longest pause between two polls of `drained`, in milliseconds. Each pause is twice as
 * long as the previous one.
 */
const FIRST_PAUSE = 1;
const LAST_PAUSE = 50;

/**
 * The base class of all locks on keys. A function with a parameter of type `BaseLock` accepts any of these
 * locks. Programs cannot construct a `BaseLock` itself. The type parameter `A` is the union of the modes that
 * the lock supports.
 *
 * The fast path acquires one free key in exclusive mode, without options. The methods `acquire`,
 * `acquireSync` and `tryAcquire` each contain the whole fast path, and V8 inlines the functions that the fast
 * path calls.
 *
 * After an acquisition has looked up a key's stripe, user code could unpin the key, and another key could
 * then get the stripe. So no user code runs until the acquisition holds the stripe or waits for it, except
 * between `KeyIndex.keep` and `KeyIndex.end`. Between these two calls the key stays pinned (preserves N4, see
 * `pinned-keys.ts`).
 */
export abstract class BaseLock<A extends LockMode = LockMode> {
  /** The name that errors, diagnostics messages and `console.log` show. */
  readonly name: string;
  /** The default timeout of an acquisition, for all of its keys together, in milliseconds. */
  readonly timeout: number;
  /** The engine that implements the lock. It is the same in all threads. */
  readonly engine: 'native' | 'javascript';
  /**
   * Makes structured clone refuse the lock: see {@link threadBound}.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;

  readonly #table: LockTable;
  readonly #path: FastPath;
  readonly #index: KeyIndex;
  readonly #sets: KeySets;
  readonly #context: LockContext;
  readonly #permits: boolean;
  /** Whether all acquisitions skip the fast path, because they are traced or take permits. */
  readonly #special: boolean;

  /** @internal */
  protected constructor({ table, name, timeout, trace }: OpenedLock, index: KeyIndex, file?: FileTerms) {
    this.name = name;
    this.timeout = timeout;
    this.engine = table.engine;
    this.#table = table;
    this.#path = new FastPath(table);
    this.#index = index;
    this.#sets = new KeySets(index);
    this.#context = new LockContext(name, table, trace, timeout, index, file);
    this.#permits = hasPermits(table.limit);
    this.#special = trace || this.#permits;
  }

  /**
   * Acquires all of the keys or none of them, under one deadline, without blocking this thread. A pending
   * acquisition keeps the event loop alive. Rejects with a LockTimeoutError at the timeout, with
   * signal.reason after an abort, or with a RangeError (ERR_OUT_OF_RANGE) for more than 1,048,576 keys.
   */
  acquire<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: AsyncAcquireOptions<M> & { mode?: A },
  ): Promise<Guard<K, M>> {
    try {
      if (options !== undefined || this.#special || typeof keys === 'object' || acquireStart.hasSubscribers) {
        return this.#acquireSlow(keys, options);
      }
      const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, ONLY_KEY), EXCLUSIVE_MODE);
      this.#table.acquiringAsync();
      return tryTake(guard) ? resolved(guard) : wait(this.#context, guard, this.timeout, undefined);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Like {@link acquire}, but blocks this thread. Throws a LockTimeoutError at the timeout. Throws a
   * DeadlockError if the wait could never end, for instance because this thread itself holds the key.
   */
  acquireSync<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: AcquireOptions<M> & { mode?: A },
  ): Guard<K, M> {
    if (options !== undefined || this.#special || typeof keys === 'object' || acquireStart.hasSubscribers) {
      return this.#acquireSyncSlow(keys, options);
    }
    const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, ONLY_KEY), EXCLUSIVE_MODE);
    return tryTake(guard) ? guard : block(this.#context, guard, this.timeout);
  }

  /** Makes one attempt to acquire the keys, and never waits. Returns undefined if the keys are not free. */
  tryAcquire<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: { mode?: M & A },
  ): Guard<K, M> | undefined {
    if (options !== undefined || this.#special || typeof keys === 'object' || acquireStart.hasSubscribers) {
      return this.#tryAcquireSlow(keys, options);
    }
    const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, ONLY_KEY), EXCLUSIVE_MODE);
    return tryTake(guard) ? guard : attempt(this.#context, guard);
  }

  /**
   * Reports whether a key is free, and how many acquisitions hold it or wait for it. Takes constant time. The
   * result is a snapshot, which may be outdated immediately; to act on a free key, use {@link tryAcquire}. A
   * `StripedLock` reports the state of the key's stripe, which may be held for other keys. Throws a TypeError
   * (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for a value that is not a key.
   */
  stateOf(key: LockKey): OneKeyState {
    const { word, waiting } = this.countsOf(key);
    return oneKeyState(word, waiting, this.#table.limit);
  }

  /**
   * Whether an exclusive acquisition of the key would wait for a holder: the opposite of `stateOf(key).free`.
   */
  isLocked(key: LockKey): boolean {
    return !this.stateOf(key).free;
  }

  /**
   * A snapshot of the counters of the whole lock, summed over all threads. Other threads keep changing the
   * counters.
   */
  abstract stats(): StripedLockStats;

  /**
   * Resolves when no thread holds a key of the lock or waits for one. Use it to shut down, after the program
   * has stopped new acquisitions. The method polls every 1 to 50 ms, and keeps the event loop alive. Rejects
   * with a LockTimeoutError at the timeout, or with signal.reason after an abort. Rejects with a TypeError
   * (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options.
   */
  async drained(options?: DrainedOptions): Promise<void> {
    checkOptionsObject(options, DRAINED);
    const timeout = checkTimeout(options?.timeout ?? this.timeout, 'options.timeout');
    const signal = options?.signal === undefined ? undefined : checkSignal(options.signal);
    const until = performance.now() + timeout;
    for (let interval = FIRST_PAUSE; ; interval = Math.min(2 * interval, LAST_PAUSE)) {
      signal?.throwIfAborted();
      const { held, waiting } = this.stats();
      if (held === 0 && waiting === 0) return;
      const left = until - performance.now();
      if (left <= 0) throw notDrained(this.name, timeout, held, waiting);
      await pause(Math.min(interval, left), signal);
    }
  }

  /**
   * Acquires the keys, runs fn, and releases the keys when fn has succeeded or failed. Resolves with the
   * result of fn.
   */
  withLock<T, K extends LockKey>(
    keys: K | readonly K[],
    fn: (guard: Guard<K, 'exclusive'>) => T | PromiseLike<T>,
  ): Promise<T>;
  withLock<T, K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options: AsyncAcquireOptions<M> & { mode?: A },
    fn: (guard: Guard<K, M>) => T | PromiseLike<T>,
  ): Promise<T>;
  withLock<T, K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    optionsOrFn: (AsyncAcquireOptions<M> & { mode?: A }) | ((guard: Guard<K, M>) => T | PromiseLike<T>),
    maybeFn?: (guard: Guard<K, M>) => T | PromiseLike<T>,
  ): Promise<T> {
    try {
      const [options, fn] = callArguments<
        AsyncAcquireOptions<M> & { mode?: A },
        (guard: Guard<K, M>) => T | PromiseLike<T>
      >(optionsOrFn, maybeFn);
      return runHeld(this.acquire<K, M>(keys, options), fn);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Like {@link withLock}, but blocks this thread until it holds the keys. If fn returns a promise, the
   * method throws a TypeError after the release: use withLock instead.
   */
  withLockSync<T, K extends LockKey>(
    keys: K | readonly K[],
    fn: (guard: Guard<K, 'exclusive'>) => SyncResult<T>,
  ): T;
  withLockSync<T, K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options: AcquireOptions<M> & { mode?: A },
    fn: (guard: Guard<K, M>) => SyncResult<T>,
  ): T;
  withLockSync<T, K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    optionsOrFn: (AcquireOptions<M> & { mode?: A }) | ((guard: Guard<K, M>) => T),
    maybeFn?: (guard: Guard<K, M>) => T,
  ): T {
    const [options, fn] = callArguments<AcquireOptions<M> & { mode?: A }, (guard: Guard<K, M>) => T>(
      optionsOrFn,
      maybeFn,
    );
    const guard = this.acquireSync<K, M>(keys, options);
    let result: T;
    let thenable: boolean;
    try {
      result = fn(guard);
      thenable = isThenable(result);
    } finally {
      guard.release();
    }
    if (thenable) throw releasedTooEarly();
    return result;
  }

  /**
   * The text that `console.log` shows.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { threadBound: _, ...shown } = this;
    return `${this.constructor.name} ${inspect(shown, options)}`;
  }

  /**
   * The lock word of a key's stripe, and the number of waiters for that stripe. Throws for a value that is
   * not a key.
   *
   * @internal
   */
  protected abstract countsOf(key: LockKey): StripeCounts;

  #modeIn(options: AcquireOptions | undefined, names: object): Mode {
    return this.#permits ? permitModeIn(options, names) : modeIn(options, names);
  }

  #acquireSlow<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AsyncAcquireOptions<M> | undefined,
  ): Promise<Guard<K, M>> {
    if (acquireStart.hasSubscribers) return this.#acquirePublished(keys, options);
    return this.#acquireGeneral(keys, options);
  }

  /**
   * Separate from {@link #acquireSlow}, which would otherwise allocate the variables of the closure in each
   * call. For the other two methods, measurements showed no gain.
   */
  #acquirePublished<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AsyncAcquireOptions<M> | undefined,
  ): Promise<Guard<K, M>> {
    return acquireTracing.tracePromise(
      () => this.#acquireGeneral(keys, options),
      this.#message('async', keys, options),
    );
  }

  #acquireSyncSlow<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AcquireOptions<M> | undefined,
  ): Guard<K, M> {
    if (!acquireStart.hasSubscribers) return this.#acquireSyncGeneral(keys, options);
    return publishCall(this.#message('sync', keys, options), () => this.#acquireSyncGeneral(keys, options));
  }

  #tryAcquireSlow<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: { mode?: M } | undefined,
  ): Guard<K, M> | undefined {
    if (!acquireStart.hasSubscribers) return this.#tryAcquireGeneral(keys, options);
    return publishCall(this.#message('sync', keys, options), () => this.#tryAcquireGeneral(keys, options));
  }

  #message(
    kind: AcquireMessage['kind'],
    keys: LockKey | readonly LockKey[],
    options: { mode?: LockMode } | undefined,
  ): AcquireMessage {
    return { lock: this.name, keys: shownKeys(keys), mode: options?.mode ?? 'exclusive', kind, threadId };
  }

  // The general path supports any keys with any options.

  #acquireGeneral<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AsyncAcquireOptions<M> | undefined,
  ): Promise<Guard<K, M>> {
    const mode = this.#modeIn(options, ACQUISITION);
    const timeout = timeoutIn(options, this.timeout);
    const signal = signalIn(options);
    this.#table.acquiringAsync();
    if (signal === undefined) {
      const free = this.#takeOne<K, M>(keys, mode);
      if (free !== undefined) return resolved(free);
    }
    const guard = this.#guardOf<K, M>(keys, mode);
    const taken = this.#take('async', guard, options, timeout, signal, wait);
    return taken === guard ? resolved(guard) : (taken as Promise<Guard<K, M>>);
  }

  #acquireSyncGeneral<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AcquireOptions<M> | undefined,
  ): Guard<K, M> {
    const mode = this.#modeIn(options, SYNC_ACQUISITION);
    const timeout = timeoutIn(options, this.timeout);
    checkSyncOptions(options);
    const free = this.#takeOne<K, M>(keys, mode);
    if (free !== undefined) return free;
    return this.#take('sync', this.#guardOf<K, M>(keys, mode), options, timeout, undefined, block);
  }

  #tryAcquireGeneral<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: { mode?: M } | undefined,
  ): Guard<K, M> | undefined {
    const mode = this.#modeIn(options, ATTEMPT);
    checkAttemptNames(options);
    return this.#take('try', this.#guardOf<K, M>(keys, mode), undefined, 0, undefined, attempt);
  }

  /**
   * Acquires one free key, in any mode. Returns undefined, and holds nothing, if the key is not free or the
   * acquisition needs the rest of the general path. Without this method, a shared acquisition would take
   * 10 to 20 % longer, because V8 does not inline {@link #take}.
   */
  #takeOne<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    mode: Mode,
  ): Guard<K, M> | undefined {
    if (this.#special || typeof keys === 'object') return undefined;
    const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, ONLY_KEY), mode);
    return tryTake(guard) ? guard : undefined;
  }

  /** Checks the keys, looks up their stripes, and creates a guard that holds nothing yet. */
  #guardOf<K extends LockKey, M extends LockMode>(keys: K | readonly K[], mode: Mode): Guard<K, M> {
    if (isList(keys)) return createGuardOfSet(this.#path, this.#sets.setOf(keys), mode);
    return createGuard(this.#path, keys, this.#index.stripeOf(keys, ONLY_KEY), mode);
  }

  /**
   * Takes the guard's stripes. The fast path takes as many stripes as it can, and `go` takes the rest. If
   * this method throws, the stripes that were already taken are released, immediately or in a microtask. The
   * code for this release is not in a separate function, because calling that function could overflow the
   * stack (preserves T1 of `LockTable`).
   */
  #take<G extends Guard, R>(
    how: How,
    guard: G,
    options: AcquireOptions | undefined,
    timeout: number,
    signal: AbortSignal | undefined,
    go: Continue<G, R>,
  ): G | R {
    // If `tryTake` throws, the guard holds nothing. Once `tryTake` returns, the guard may hold stripes, and
    // only the `try` block releases them after an error. So no function may be called between this line and
    // the `try` block.
    if (signal === undefined && !this.#context.trace && tryTake(guard)) return guard;
    try {
      return this.#takeSlow(how, guard, options, timeout, signal, go);
    } catch (error) {
      try {
        guard.release();
      } catch {
        defer(() => guard.release(), undefined);
      }
      throw error;
    }
  }

  /**
   * The part of `#take` in which user code may run: `Error.prepareStackTrace` for a trace, a method
   * of the signal, or a trap of a Proxy that was passed as the options.
   */
  #takeSlow<G extends Guard, R>(
    how: How,
    guard: G,
    options: AcquireOptions | undefined,
    timeout: number,
    signal: AbortSignal | undefined,
    go: Continue<G, R>,
  ): G | R {
    const context = this.#context;
    this.#index.keep(stripesOf(guard));
    try {
      if (context.trace) traceCall(guard, guard.keys, this.#entryPoints(how));
      if (signal?.aborted === true) return Promise.reject(signal.reason as Error) as R;
      if ((context.trace || signal !== undefined) && tryTake(guard)) {
        recordHeld(context, guard);
        return guard;
      }
      checkNamesOfWait(options);
      return go(context, guard, timeout, signal);
    } finally {
      this.#index.end();
    }
  }

  /**
   * The functions by which a trace finds the stack frame of the program's call. In Bun, a function that ends
   * with a tail call has no frame. `inner` is `#take`, which always has a frame, because `#take` calls
   * `#takeSlow` within `try`.
   */
  #entryPoints(how: How): EntryPoints {
    const inner = this.#take;
    const { acquire, acquireSync, tryAcquire, withLock, withLockSync } =
      this.#context.file?.methods ?? METHODS;
    if (how === 'sync') return { inner, method: acquireSync, outer: withLockSync };
    if (how === 'async') return { inner, method: acquire, outer: withLock };
    return { inner, method: tryAcquire, outer: undefined };
  }
}

/**
 * Runs an acquisition, and publishes the call and its result. If publishing the result throws, this function
 * releases the guard, because the caller will not receive the guard.
 */
function publishCall<G extends Guard | undefined>(message: AcquireMessage, call: () => G): G {
  let guard: G | undefined;
  try {
    return acquireTracing.traceSync(() => (guard = call()), message);
  } catch (error) {
    guard?.release();
    throw error;
  }
}

/** The state of a key, computed from its stripe's word and the table's limit. */
function oneKeyState(word: number, waiters: number, limit: number): OneKeyState {
  const mode = modeOfWord(word, limit);
  const holders = mode === undefined ? 0 : mode.counted ? word & HOLDER_MASK : 1;
  // Without permits, any holder makes an exclusive acquisition wait, even a shared holder. So `permitsLeft`
  // is 0 while the key is held.
  const permitsLeft = hasPermits(limit) ? limit - holders : holders === 0 ? 1 : 0;
  return { free: permitsLeft > 0, mode: mode?.name, holders, waiters, permitsLeft };
}

type How = 'sync' | 'try' | 'async';

const METHODS = methodsOf(BaseLock.prototype);
