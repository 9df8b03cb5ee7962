import { threadId } from 'node:worker_threads';
import { inspect, type InspectOptions } from 'node:util';
import {
  callArguments,
  checkOptionsObject,
  checkSignal,
  checkTimeout,
  type Names,
} from '../common/checks.js';
import { acquireStart, acquireTracing, type AcquireMessage } from '../common/diagnostics.js';
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
  checkAsyncOptions,
  checkAttemptNames,
  checkNamesOfWait,
  checkSyncOptions,
  modeIn,
  permitModeIn,
  signalIn,
  timeoutIn,
} from './options.js';
import { isList, ONLY_KEY, type KeyIndex } from './stripe-index.js';
import { methodsOf, traceCall, type EntryPoints } from './trace.js';

const THREAD_BOUND = threadBound('lock', 'pass lock.handle instead, and open it there with from()');

const DRAINED: Names<DrainedOptions> = { timeout: true, signal: true };
/** The pause between two polls, in milliseconds. It doubles from the first value to the last. */
const FIRST_PAUSE = 1;
const LAST_PAUSE = 50;

/**
 * The common class of the locks on keys: a function with a parameter of this type accepts any of them. Programs cannot
 * construct it. `A`: the modes that the lock supports.
 *
 * The methods `acquire`, `acquireSync` and `tryAcquire` contain the whole fast path, which takes one free key
 * exclusively and without options. V8 inlines the functions that they call. No code of the program runs between the
 * look-up of the key and the moment when its stripe is taken or waited for (keeps N4, see `pinned-keys.ts`).
 */
export abstract class BaseLock<A extends LockMode = LockMode> {
  /** Shown in errors, `inspect()` and diagnostics. */
  readonly name: string;
  /** Default time allowed for one whole acquisition, in milliseconds. */
  readonly timeout: number;
  /** Which engine the lock runs on, in all threads. */
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
  /** True if the lock does not use the fast path, because its acquisitions are traced or take permits. */
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
   * Acquires all keys or none, under one deadline, without blocking this thread. Keeps the event loop alive while it
   * waits. Rejects with a LockTimeoutError or with signal.reason, or with a RangeError (ERR_OUT_OF_RANGE) for more than
   * 1,048,576 keys.
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
   * Like {@link acquire}, but blocks this thread. Throws a LockTimeoutError, or a DeadlockError if waiting could never
   * end, for instance because this thread itself holds the key.
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

  /** Makes one attempt and never waits. Returns undefined if the keys are not free. */
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
   * Whether a key is free, and how many acquisitions hold it and wait for it, in constant time. A snapshot, because
   * other threads continue: to act on it, use {@link tryAcquire}. A `StripedLock` reports the state of the key's
   * stripe, which other keys may hold. Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for a
   * value that is not a key.
   */
  stateOf(key: LockKey): OneKeyState {
    const { word, waiting } = this.countsOf(key);
    return oneKeyState(word, waiting, this.#table.limit);
  }

  /** Whether an exclusive acquisition of a key would wait for a holder: the opposite of `stateOf(key).free`. */
  isLocked(key: LockKey): boolean {
    return !this.stateOf(key).free;
  }

  /** Counters of the whole lock, for all threads together. A snapshot, because other threads continue. */
  abstract stats(): StripedLockStats;

  /**
   * Resolves when no thread holds a key of the lock or waits for one. Use it to shut down, after the program has
   * stopped new acquisitions. It polls every 1 to 50 ms, and keeps the event loop alive. Rejects with a
   * LockTimeoutError at the timeout, with signal.reason, or with a TypeError (ERR_INVALID_ARG_TYPE) or RangeError
   * (ERR_OUT_OF_RANGE) for bad options.
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

  /** Runs fn while holding the keys, and releases them however fn ends. */
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
   * Blocks this thread until it holds the keys, runs fn, and releases them. If fn returns a promise, throws a TypeError
   * after the release: use withLock instead.
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
   * The state of a key's stripe. Throws for a value that is not a key.
   *
   * @internal
   */
  protected abstract countsOf(key: LockKey): StripeCounts;

  #modeIn(options: AcquireOptions | undefined): Mode {
    return this.#permits ? permitModeIn(options) : modeIn(options);
  }

  #acquireSlow<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AsyncAcquireOptions<M> | undefined,
  ): Promise<Guard<K, M>> {
    if (!acquireStart.hasSubscribers) return this.#acquireGeneral(keys, options);
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

  // The general path: any keys, with any options.

  #acquireGeneral<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AsyncAcquireOptions<M> | undefined,
  ): Promise<Guard<K, M>> {
    const mode = this.#modeIn(options);
    const timeout = timeoutIn(options, this.timeout);
    const signal = signalIn(options);
    checkAsyncOptions(options);
    this.#table.acquiringAsync();
    const guard = this.#guardOf<K, M>(keys, mode);
    const taken = this.#take('async', guard, options, timeout, signal, wait);
    return taken === guard ? resolved(guard) : (taken as Promise<Guard<K, M>>);
  }

  #acquireSyncGeneral<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AcquireOptions<M> | undefined,
  ): Guard<K, M> {
    const mode = this.#modeIn(options);
    const timeout = timeoutIn(options, this.timeout);
    checkSyncOptions(options);
    return this.#take('sync', this.#guardOf<K, M>(keys, mode), options, timeout, undefined, block);
  }

  #tryAcquireGeneral<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: { mode?: M } | undefined,
  ): Guard<K, M> | undefined {
    const mode = this.#modeIn(options);
    checkAttemptNames(options);
    return this.#take('try', this.#guardOf<K, M>(keys, mode), undefined, 0, undefined, attempt);
  }

  /** Checks the keys, looks up their stripes, and creates a guard that holds nothing yet. */
  #guardOf<K extends LockKey, M extends LockMode>(keys: K | readonly K[], mode: Mode): Guard<K, M> {
    if (isList(keys)) return createGuardOfSet(this.#path, this.#sets.setOf(keys), mode);
    return createGuard(this.#path, keys, this.#index.stripeOf(keys, ONLY_KEY), mode);
  }

  /**
   * Takes the guard's stripes by the fast path, and the rest by `go`. On an error it frees the stripes that were taken,
   * at once or in a microtask. That clean-up is not a separate function, because calling one could overflow the stack
   * (keeps T1).
   */
  #take<G extends Guard, R>(
    how: How,
    guard: G,
    options: AcquireOptions | undefined,
    timeout: number,
    signal: AbortSignal | undefined,
    go: Continue<G, R>,
  ): G | R {
    // If `tryTake` throws, the guard holds nothing. No function may be called between this line and the try block.
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

  /** Code of the program runs here: the trace's `Error.prepareStackTrace`, the signal, or a Proxy of the options. */
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

  /** `inner` is `#take`, because it calls within `try`: in Bun, a function that ends with a call loses its frame. */
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
 * Publishes a call and its result. If publishing the result throws, this releases the guard, because the caller will
 * not receive it.
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

/** A copy of the caller's keys for a message, not checked yet. Empty if the list cannot be read. */
function shownKeys(keys: LockKey | readonly LockKey[]): readonly LockKey[] {
  try {
    return isList(keys) ? [...keys] : [keys];
  } catch {
    return [];
  }
}

/** The state of a key, computed from the word of its stripe and the limit of the table. */
function oneKeyState(word: number, waiters: number, limit: number): OneKeyState {
  const mode = modeOfWord(word, limit);
  const holders = mode === undefined ? 0 : mode.counted ? word & HOLDER_MASK : 1;
  // A shared hold leaves no permit: an exclusive acquisition would have to wait.
  const permitsLeft = hasPermits(limit) ? limit - holders : holders === 0 ? 1 : 0;
  return { free: permitsLeft > 0, mode: mode?.name, holders, waiters, permitsLeft };
}

type How = 'sync' | 'try' | 'async';

const METHODS = methodsOf(BaseLock.prototype);
