import { inspect, type InspectOptions } from 'node:util';
import {
  callArguments,
  checkOptionsObject,
  checkSignal,
  checkTimeout,
  type Names,
} from '../common/checks.js';
import { notDrained } from '../common/errors.js';
import { performance } from '../common/host.js';
import { pause } from '../common/pause.js';
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
import type { Guard } from './guard.js';

const THREAD_BOUND = threadBound('lock', 'pass lock.handle instead, and open it there with from()');

const DRAINED: Names<DrainedOptions> = { timeout: true, signal: true };
/** Milliseconds between two looks, doubled from the first to the last. */
const FIRST_LOOK = 1;
const LAST_LOOK = 50;

/**
 * What all locks on keys of this package share. A function that takes one of these works with each of them. It cannot be
 * made itself. `A`: its modes.
 */
export abstract class BaseLock<A extends LockMode = LockMode> {
  /** Shown in errors, `inspect()` and diagnostics. */
  readonly name: string;
  /** Default time allowed for one whole acquisition, in milliseconds. */
  readonly timeout: number;
  /** Which engine the lock runs on, in all threads. */
  readonly engine: 'native' | 'javascript';
  /**
   * See {@link threadBound}.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;

  protected constructor(name: string, timeout: number, engine: 'native' | 'javascript') {
    this.name = name;
    this.timeout = timeout;
    this.engine = engine;
  }

  /**
   * All keys or none, under one deadline, without blocking this thread. Keeps the event loop alive while it
   * waits. Rejects with a LockTimeoutError or with signal.reason; with a RangeError (ERR_OUT_OF_RANGE) for more than
   * 1,048,576 keys.
   */
  abstract acquire<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: AsyncAcquireOptions<M> & { mode?: A },
  ): Promise<Guard<K, M>>;

  /**
   * The same, blocking this thread. Throws a LockTimeoutError, or a DeadlockError if waiting could never end, also if
   * this same thread holds what it would wait for through any guard.
   */
  abstract acquireSync<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: AcquireOptions<M> & { mode?: A },
  ): Guard<K, M>;

  /** Makes one attempt and never waits. Undefined if the keys are not free. */
  abstract tryAcquire<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: { mode?: M & A },
  ): Guard<K, M> | undefined;

  /**
   * Whether a key is free, and how many acquisitions hold it and wait for it, in constant time. A snapshot, as other threads
   * continue meanwhile: to act on it, use {@link tryAcquire}. Of a `StripedLock` it is the state of the key's stripe, which
   * other keys may hold. Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for what is not a key.
   */
  abstract stateOf(key: LockKey): OneKeyState;

  /** Whether an exclusive acquisition of a key would wait for a holder: the opposite of `stateOf(key).free`. */
  isLocked(key: LockKey): boolean {
    return !this.stateOf(key).free;
  }

  /** Counters of the whole lock, all threads together. A snapshot, as other threads continue meanwhile. */
  abstract stats(): StripedLockStats;

  /**
   * Resolves when nobody holds the lock or waits for it, in any thread: for an orderly end, once nothing new is begun. It
   * looks again and again, after 1 to 50 ms, and keeps the event loop alive. Rejects with a LockTimeoutError when the
   * timeout is over, with signal.reason, or with a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for
   * bad options.
   */
  async drained(options?: DrainedOptions): Promise<void> {
    checkOptionsObject(options, DRAINED);
    const timeout = checkTimeout(options?.timeout ?? this.timeout, 'options.timeout');
    const signal = options?.signal === undefined ? undefined : checkSignal(options.signal);
    const until = performance.now() + timeout;
    for (let look = FIRST_LOOK; ; look = Math.min(2 * look, LAST_LOOK)) {
      signal?.throwIfAborted();
      const { held, waiting } = this.stats();
      if (held === 0 && waiting === 0) return;
      const left = until - performance.now();
      if (left <= 0) throw notDrained(this.name, timeout, held, waiting);
      await pause(Math.min(look, left), signal);
    }
  }

  /** Runs fn while holding the keys; releases however fn ends. */
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

  /** Blocks this thread until it holds the keys. Throws a TypeError, after releasing, if fn returns a promise: use withLock. */
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
   * What `console.log` shows.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { threadBound: _, ...shown } = this;
    return `${this.constructor.name} ${inspect(shown, options)}`;
  }
}
