/**
 * The public contract of "stripelock": `types.test-d.ts` compares the package's own types with it. Code written against it
 * must run unchanged. The package may have more beside it.
 *
 * Durations are milliseconds. Methods ending in `Sync` block the calling thread; the others never do.
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
  readonly kind: 'stripelock/striped-lock';
  readonly [opaque: string]: unknown;
}

/** No promise: the lock is released before that settles. */
export type SyncResult<T> = T extends PromiseLike<unknown> ? 'an async function needs withLock' : T;

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
  withLockSync<T, K extends LockKey>(
    keys: K | readonly K[],
    fn: (guard: Guard<K, 'exclusive'>) => SyncResult<T>,
  ): T;
  withLockSync<T, K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options: AcquireOptions<M>,
    fn: (guard: Guard<K, M>) => SyncResult<T>,
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

// ── leases ──

/** Strictly increases from holder to holder of a key, across release, expiry and crash. */
export type FencingToken = bigint;

export interface Clock {
  /** Milliseconds; must never go backwards. */ now(): number;
}

/** Where leases live. Contention is a result, never an error; only a failing backend rejects. */
export interface LeaseStore {
  /** Atomically: if key is free, expired, or held by this same owner, hold it for ttl and return its token. */
  tryAcquire(key: string, owner: string, ttl: number): Promise<FencingToken | undefined>;
  /** Extend only if owner still holds key. */
  renew(key: string, owner: string, ttl: number): Promise<boolean>;
  /** Compare-and-delete: free key only if owner still holds it. */
  release(key: string, owner: string): Promise<boolean>;
  inspect(key: string): Promise<{ owner: string; token: FencingToken; remaining: number } | undefined>;
  close?(): Promise<void>;
}

/** Exact-key leases in native memory, shared by every thread of this process. The default store. */
export class MemoryLeaseStore implements LeaseStore {
  constructor(options?: { clock?: Clock });
  static from(handle: object, options?: { clock?: Clock }): MemoryLeaseStore;
  readonly handle: object;
  /** Keys in the table now, expired ones not yet swept included. */
  readonly size: number;
  tryAcquire(key: string, owner: string, ttl: number): Promise<FencingToken | undefined>;
  renew(key: string, owner: string, ttl: number): Promise<boolean>;
  release(key: string, owner: string): Promise<boolean>;
  inspect(key: string): Promise<{ owner: string; token: FencingToken; remaining: number } | undefined>;
}

export interface LeaseManagerOptions {
  store?: LeaseStore;
  /** Default 30_000. */
  ttl?: number;
  /** Renew automatically while held. Default true: every ttl/3. */
  renew?: boolean | { every?: number };
  /** Stop renewing after this long, so that a wedged holder still loses the lease. Default Infinity. */
  maxHold?: number;
  /** Stable identity: the same holder may take its own live lease again (after a crash). Default: unique per acquisition. */
  holder?: string;
  /** Let acquisitions of one key through this manager share one lease, released by the last of them. Default false. */
  reentrant?: boolean;
  /** Waits between attempts: initial, doubling to max, with jitter (0 … 1). Default 10, 1000, 0.5. */
  backoff?: { initial?: number; max?: number; jitter?: number };
  clock?: Clock;
}
export interface LeaseOptions {
  ttl?: number;
  renew?: boolean | { every?: number };
  maxHold?: number;
}

export class LeaseManager {
  constructor(options?: LeaseManagerOptions);
  readonly store: LeaseStore;
  /** undefined when another live holder has it. Rejects with LeaseStoreError when the store fails: never granted then. */
  tryAcquire(key: string, options?: LeaseOptions): Promise<Lease | undefined>;
  /** Waits up to timeout (default 5000). Rejects with LockTimeoutError or signal.reason. Store failures are retried until then. */
  acquire(key: string, options?: LeaseOptions & { timeout?: number; signal?: AbortSignal }): Promise<Lease>;
  /** With ifAvailable, resolves to undefined without calling fn when the lease is taken. */
  withLease<T>(key: string, fn: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
  withLease<T>(
    key: string,
    options: LeaseOptions & { timeout?: number; signal?: AbortSignal; ifAvailable?: boolean },
    fn: (lease: Lease) => T | PromiseLike<T>,
  ): Promise<T | undefined>;
  /** Stops every renewal and releases every lease it holds. */
  close(): Promise<void>;
}

export class Lease implements AsyncDisposable {
  readonly key: string;
  readonly token: FencingToken;
  readonly holder: string;
  /** On the manager's clock. Local, and earlier than the store's own expiry. */
  readonly expiresAt: number;
  readonly held: boolean;
  /** Aborts with LeaseLostError when the lease is lost or its local deadline passes, even while a renewal hangs. Not on release. */
  readonly signal: AbortSignal;
  /** Throws LeaseLostError unless the local deadline is still ahead. Synchronous: right even after the event loop was blocked. */
  assertHeld(): void;
  renew(ttl?: number): Promise<boolean>;
  /** True if this call freed it. Idempotent; never frees another holder's lease; never rejects because it was lost. */
  release(): Promise<boolean>;
  [Symbol.asyncDispose](): Promise<void>;
}
/** code ERR_LEASE_LOST */
export class LeaseLostError extends LockError {
  readonly key: string;
  readonly token: FencingToken;
}
/** code ERR_LEASE_STORE; cause is the backend's error */
export class LeaseStoreError extends LockError {}

/** Remembers the highest token seen per key, for all threads; what a fenced resource checks before each write. */
export class FencingGate {
  constructor();
  static from(handle: object): FencingGate;
  readonly handle: object;
  /** Throws StaleTokenError (code ERR_STALE_TOKEN) if a higher token was admitted before. */
  admit(key: string, token: FencingToken): void;
}
export class StaleTokenError extends LockError {
  readonly key: string;
  readonly token: FencingToken;
  readonly newest: FencingToken;
}
