/**
 * The public contract of "stripelock", leases aside: what `types.test-d.ts` holds the package's own types against.
 */

/** What is locked. A string is hashed as its UTF-8 bytes; a number must be a safe integer. */
export type LockKey = string | number | Uint8Array;
export type LockMode = 'exclusive' | 'shared';

export interface StripedLockOptions {
  /** Number of stripes, an integer 1 … 1_048_576. Default 1024. */
  stripes?: number;
  /** Default time allowed for one whole acquisition, however many keys. Default 5000. Infinity waits for ever. */
  timeout?: number;
  /** Shown in errors, inspect() and diagnostics. Default ''. */
  name?: string;
  /** Default: 'native' where the addon loads, else 'javascript'. Naming 'native' where it cannot load throws. */
  engine?: 'native' | 'javascript';
  /** Record keys, time and call site of every acquisition for inspect() and errors. Slower. Default false. */
  trace?: boolean;
}

export interface AcquireOptions<M extends LockMode = LockMode> {
  /** 0 makes one attempt. Infinity waits for ever. Default: the lock's own. */
  timeout?: number;
  /** 'shared' holders exclude only 'exclusive' ones. Default 'exclusive'. */
  mode?: M;
}
export interface AsyncAcquireOptions<M extends LockMode = LockMode> extends AcquireOptions<M> {
  /** Aborting removes the waiter and rejects with signal.reason. */
  signal?: AbortSignal;
}

/** Structured-cloneable: hand it to another thread through workerData or postMessage. Opaque. */
export interface StripedLockHandle {
  readonly [opaque: string]: unknown;
}

export class StripedLock {
  constructor(options?: StripedLockOptions);
  /** The same lock, in another thread (or again in this one). */
  static from(handle: StripedLockHandle): StripedLock;

  readonly handle: StripedLockHandle;
  readonly name: string;
  readonly stripes: number;
  readonly timeout: number;
  readonly engine: 'native' | 'javascript';

  /** The stripe a key maps to, 0 … stripes-1. Native engine, string or bytes: XXH3-64(bytes) mod stripes. */
  stripeOf(key: LockKey): number;

  /** All keys or none, under one deadline. Rejects with LockTimeoutError, DeadlockError or signal.reason. */
  acquire<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: AsyncAcquireOptions<M>,
  ): Promise<Guard<K, M>>;
  /** The same, blocking this thread. Throws LockTimeoutError or DeadlockError. */
  acquireSync<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: AcquireOptions<M>,
  ): Guard<K, M>;
  /** One attempt, never waits. */
  tryAcquire<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: { mode?: M },
  ): Guard<K, M> | undefined;

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
  /** Throws a TypeError, after releasing, if fn returns a promise. */
  withLockSync<T, K extends LockKey>(keys: K | readonly K[], fn: (guard: Guard<K, 'exclusive'>) => T): T;
  withLockSync<T, K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options: AcquireOptions<M>,
    fn: (guard: Guard<K, M>) => T,
  ): T;

  /** Counters of the whole lock, all threads together. */
  stats(): StripedLockStats;
  /** Every stripe that is held or waited for, by any thread, ascending. */
  inspect(): StripeState[];
}

/**
 * Holds its stripes until released. No key: holds nothing, and is valid.
 * Typed by its keys and mode, so that a function can ask for proof: `write(row, guard: Guard<string, 'exclusive'>)`.
 */
export class Guard<K extends LockKey = LockKey, M extends LockMode = LockMode> implements Disposable {
  private constructor();
  readonly keys: readonly K[];
  /** Ascending, no duplicates. Taken in this order, released in reverse. */
  readonly stripes: readonly number[];
  readonly mode: M;
  readonly held: boolean;
  /** True when an earlier holder's thread ended without releasing: what the lock protects may be half-written. */
  readonly abandoned: boolean;
  /**
   * Fencing token: greater than that of every earlier holder of any of these stripes.
   * Assigned at first read, which must happen while held (else throws a LockError, code ERR_LOCK_NOT_HELD).
   */
  readonly token: bigint;
  /** Idempotent. */
  release(): void;
  [Symbol.dispose](): void;
}

export interface StripedLockStats {
  engine: 'native' | 'javascript';
  stripes: number;
  /** Stripes held now; acquisitions waiting now. */
  held: number;
  waiting: number;
  /** Since creation: acquisitions that had to wait, timed out, were aborted, were refused as deadlocks; stripes freed for dead threads. */
  contended: number;
  timeouts: number;
  aborts: number;
  deadlocks: number;
  abandoned: number;
}
export interface StripeState {
  stripe: number;
  mode: LockMode | undefined;
  holders: { threadId: number; keys?: LockKey[]; heldFor?: number; acquiredAt?: string }[];
  waiters: {
    threadId: number;
    kind: 'sync' | 'async';
    mode: LockMode;
    waitingFor: number;
    keys?: LockKey[];
  }[];
}

/** Base of all errors below. */
export class LockError extends Error {
  readonly code: string;
}
/** code ERR_LOCK_TIMEOUT */
export class LockTimeoutError extends LockError {
  readonly timeout: number;
  readonly keys: readonly LockKey[];
  readonly stripe: number;
}
/** code ERR_LOCK_DEADLOCK. Thrown at once where waiting could never end. */
export class DeadlockError extends LockError {
  readonly keys: readonly LockKey[];
  readonly threads: readonly number[];
}
// Bad arguments: TypeError with code ERR_INVALID_ARG_TYPE, or RangeError with code ERR_OUT_OF_RANGE; nothing is taken.
