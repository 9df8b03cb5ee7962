/** What is locked. A string is hashed as its UTF-8 bytes; a number must be a safe integer. */
export type LockKey = string | number | Uint8Array;

/** Shared holders exclude only exclusive ones. */
export type LockMode = 'exclusive' | 'shared';

/** What a function of `withLockSync` may return: no promise, as the lock is released before that settles. */
export type SyncResult<T> = T extends PromiseLike<unknown> ? 'an async function needs withLock' : T;

/** For `new StripedLock(options)`. */
export interface StripedLockOptions {
  /** Number of stripes, an integer 1 … 1_048_576. Default 1024. */
  stripes?: number;
  /** Default time allowed for one whole acquisition, however many keys, in milliseconds. Default 5000. Infinity waits forever. */
  timeout?: number;
  /** Shown in errors, inspect() and diagnostics. Default ''. */
  name?: string;
  /** Default: 'native' where the addon loads, else 'javascript'. Asking for 'native' throws if the addon cannot load. */
  engine?: 'native' | 'javascript';
  /** Record keys, time and call site of every acquisition for inspect() and errors. Slower. Default false. */
  trace?: boolean;
}

/** For an acquisition that may block. */
export interface AcquireOptions<M extends LockMode = LockMode> {
  /** Milliseconds for the whole acquisition. 0 makes one attempt. Infinity waits forever. Default: the lock's own. */
  timeout?: number;
  /** Default 'exclusive'. */
  mode?: M;
}

/** For `acquire` and `withLock`; without `signal` for `acquireSync` and `withLockSync`; `mode` alone for `tryAcquire`. */
export interface AsyncAcquireOptions<M extends LockMode = LockMode> extends AcquireOptions<M> {
  /** Aborting removes the waiter and rejects with signal.reason. */
  signal?: HostSignal;
}

/** For `drained`. */
export interface DrainedOptions {
  /** Milliseconds. 0 looks once, Infinity waits forever. Default: the lock's. */
  timeout?: number;
  /** Aborting ends the wait and rejects with signal.reason. */
  signal?: HostSignal;
}

/**
 * The `AbortSignal` of whichever library of types a program uses: that of Node, or that of browsers. Its few members that
 * need no library where there is none.
 */
export type HostSignal = typeof globalThis extends { AbortSignal: { prototype: infer Signal } }
  ? Signal
  : { readonly aborted: boolean; readonly reason: unknown };

/** Structured-cloneable, and opaque. Its type refuses the handle of another class. */
export interface HandleOf<K extends string> {
  /** Whose handle it is. */
  readonly kind?: K;
}

/** Structured-cloneable: hand it to another thread through workerData or postMessage. Opaque. */
export interface StripedLockHandle {
  /** Whose handle it is. */
  readonly kind: 'stripelock/striped-lock';
  readonly [opaque: string]: unknown;
}

/** Counters of one lock, all threads together. */
export interface StripedLockStats {
  /** Which engine the lock uses. */
  engine: 'native' | 'javascript';
  /** How many stripes the lock has. */
  stripes: number;
  /** Stripes held now. */
  held: number;
  /** Acquisitions waiting now. */
  waiting: number;
  /**
   * Acquisitions that had to wait in a queue, since creation; so are the counters below. Those that got their keys while they
   * tried again for some microseconds, and those that were refused at once, did not.
   */
  contended: number;
  /** Acquisitions that ran out of time. */
  timeouts: number;
  /** Acquisitions that their signal aborted. */
  aborts: number;
  /** Acquisitions refused as deadlocks. */
  deadlocks: number;
  /** Stripes freed for threads that ended while they held them, except shared ones. */
  abandoned: number;
}

/** One stripe that is held or waited for. */
export interface StripeState {
  /** Its number, from 0. */
  stripe: number;
  /** The mode in which it is held; undefined if it is only waited for. */
  mode: LockMode | undefined;
  /**
   * Who holds it: each thread once, or once for each of its permits where a KeyedLock has a limit above 1. Traced
   * acquisitions show keys, since when in milliseconds, and where they were made.
   */
  holders: {
    /** As `threadId` of `node:worker_threads`. */
    threadId: number;
    /** The keys of the acquisition, if it was traced. */
    keys?: LockKey[];
    /** Milliseconds since the acquisition, if it was traced. */
    heldFor?: number;
    /** The caller's place in its source, if the acquisition was traced. */
    acquiredAt?: string;
  }[];
  /** Who waits for it, in order. */
  waiters: {
    /** As `threadId` of `node:worker_threads`. */
    threadId: number;
    /** Whether it blocks its thread, or waits on its event loop. */
    kind: 'sync' | 'async';
    /** The mode that it asked for. */
    mode: LockMode;
    /**
     * Milliseconds. 0 where only the waiter's own thread knows: it waits there behind others, or for one of the same
     * thread. That thread counts a timeout of a second or more from up to 1/256 of it later.
     */
    waitingFor: number;
    /** The keys of the acquisition, if it is traced. */
    keys?: LockKey[];
  }[];
}

/** For a new {@link KeyedLock}. */
export interface KeyedLockOptions {
  /**
   * Most keys in use at once, over all threads, an integer 1 … 1_048_576. Beyond it an acquisition fails with a LockError
   * (ERR_LOCK_CAPACITY) and takes nothing. Threads also remember keys that they used last, together up to half of this.
   * Default 65_536.
   */
  capacity?: number;
  /**
   * How many acquisitions may hold a key at once, over all threads, an integer 1 … 1_048_576. Above 1 the lock has permits,
   * and no shared mode. Default 1, an exclusive lock.
   */
  limit?: number;
  /** Default time allowed for one whole acquisition, however many keys, in milliseconds. Default 5000. Infinity waits forever. */
  timeout?: number;
  /** Shown in errors, inspect() and diagnostics. Default ''. */
  name?: string;
  /**
   * Default: 'native' where the addon loads, else 'javascript'. Asking for 'native' throws if the addon cannot load. On
   * 'javascript' the lock works only in the thread that makes it.
   */
  engine?: 'native' | 'javascript';
  /** Record time and call site of every acquisition for inspect() and errors. Slower. Default false. */
  trace?: boolean;
}

/** No value has it. The compiler shows its property where a program asks a lock with permits for the shared mode. */
export interface PermitsHaveNoSharedMode {
  /** Names the cause in the compiler's message. */
  readonly sharedModeNeedsALimitOf1: never;
}

/** Counters of a {@link KeyedLock}, all threads together. */
export interface KeyedLockStats extends StripedLockStats {
  /** Most keys in use at once, over all threads. */
  capacity: number;
  /** The same as {@link capacity}: each key in use has a stripe, whose number passes to another key later. */
  stripes: number;
  /** Keys held now. */
  held: number;
}

/** The modes of a {@link KeyedLock} with that limit: no shared one where it has permits. */
export type KeyedLockMode<L extends number> = 1 extends L
  ? LockMode
  : 'exclusive' | ('shared' & PermitsHaveNoSharedMode);

/** Structured-cloneable: hand it to another thread through workerData or postMessage. Opaque. */
export interface KeyedLockHandle {
  /** Whose handle it is. */
  readonly kind: 'stripelock/keyed-lock';
  readonly [opaque: string]: unknown;
}

/** Whether one key can be had, and by how many it is held and waited for, in all threads. */
export interface OneKeyState {
  /** An exclusive acquisition would not have to wait for holders: nobody holds the key or, if it has permits, one is left. */
  readonly free: boolean;
  /** How it is held; undefined if nobody holds it. */
  readonly mode: LockMode | undefined;
  /** Acquisitions that hold it. */
  readonly holders: number;
  /** Acquisitions that wait for it. On the JavaScript engine those of this thread alone. */
  readonly waiters: number;
  /** How many more acquisitions may hold it exclusively: 0 or 1 without permits. */
  readonly permitsLeft: number;
}

/** One key that is held or waited for. */
export interface KeyState extends Omit<StripeState, 'stripe'> {
  /** The key. Bytes are a copy. */
  key: LockKey;
}

/** A `URL`, by the member that is read: for programs without a library of types that knows the class. */
export interface HostUrl {
  /** The whole URL. */
  readonly href: string;
}
