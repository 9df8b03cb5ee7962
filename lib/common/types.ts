/** A key to lock. A string is hashed by its UTF-8 bytes; a number must be a safe integer. */
export type LockKey = string | number | Uint8Array;

/** `shared` holders exclude only `exclusive` ones. */
export type LockMode = 'exclusive' | 'shared';

/**
 * The result type of a callback of `withLockSync`. It excludes promises, because the lock is released before they
 * settle.
 */
export type SyncResult<T> = T extends PromiseLike<unknown> ? 'an async function needs withLock' : T;

/** Options of `new StripedLock(options)`. */
export interface StripedLockOptions {
  /** Number of stripes, an integer 1 … 1_048_576. Default 1024. */
  stripes?: number;
  /**
   * Default timeout of a whole acquisition, for any number of keys, in milliseconds. Default 5000. Infinity waits
   * forever.
   */
  timeout?: number;
  /** Shown in errors, inspect() and diagnostics. Default ''. */
  name?: string;
  /**
   * The engine. Default: 'native' where the addon loads, else 'javascript'. With 'native', the constructor
   * throws if the addon cannot load.
   */
  engine?: 'native' | 'javascript';
  /** Record keys, time and call site of every acquisition for inspect() and errors. Slower. Default false. */
  trace?: boolean;
}

/** Options of an acquisition that may block. */
export interface AcquireOptions<M extends LockMode = LockMode> {
  /**
   * Milliseconds for the whole acquisition. 0 makes one attempt. Infinity waits forever. Default: the lock's timeout.
   */
  timeout?: number;
  /** Default 'exclusive'. */
  mode?: M;
}

/**
 * Options of `acquire` and `withLock`. `acquireSync` and `withLockSync` accept the same options, except
 * `signal`. `tryAcquire` accepts only `mode`.
 */
export interface AsyncAcquireOptions<M extends LockMode = LockMode> extends AcquireOptions<M> {
  /** Aborting removes the waiter and rejects with signal.reason. */
  signal?: HostSignal;
}

/** Options of `drained`. */
export interface DrainedOptions {
  /** Milliseconds. 0 checks once, Infinity waits forever. Default: the lock's timeout. */
  timeout?: number;
  /** Aborting ends the wait and rejects with signal.reason. */
  signal?: HostSignal;
}

/**
 * The type `AbortSignal` of the type library that a program uses: Node's or the DOM's. If a program uses
 * neither, the type has only the members that need no library.
 */
export type HostSignal = typeof globalThis extends { AbortSignal: { prototype: infer Signal } }
  ? Signal
  : { readonly aborted: boolean; readonly reason: unknown };

/** An opaque, structured-cloneable handle. Handles of other classes have incompatible types. */
export interface HandleOf<K extends string> {
  /** The class that the handle belongs to. */
  readonly kind?: K;
}

/** An opaque, structured-cloneable handle. Pass it to another thread by workerData or postMessage. */
export interface StripedLockHandle {
  /** The class that the handle belongs to. */
  readonly kind: 'stripelock/striped-lock';
  readonly [opaque: string]: unknown;
}

/** Counters of one lock, summed over all threads. */
export interface StripedLockStats {
  /** The engine that the lock uses. */
  engine: 'native' | 'javascript';
  /** The number of stripes of the lock. */
  stripes: number;
  /** Stripes held now. */
  held: number;
  /** Acquisitions waiting now. */
  waiting: number;
  /**
   * Acquisitions that waited in a queue. This counter and the counters below count from the creation of the
   * lock. Not counted: acquisitions that retried for only a few microseconds before they got their keys, and
   * acquisitions that were refused immediately.
   */
  contended: number;
  /** Acquisitions that timed out. */
  timeouts: number;
  /** Acquisitions that were aborted by their signal. */
  aborts: number;
  /** Acquisitions that were refused as deadlocks. */
  deadlocks: number;
  /** Stripes freed because the holding thread ended. Not counted: stripes that were held in shared mode. */
  abandoned: number;
}

/** One stripe that is held or waited for. */
export interface StripeState {
  /** The number of the stripe, from 0. */
  stripe: number;
  /** The mode in which the stripe is held. Undefined if acquisitions only wait for it. */
  mode: LockMode | undefined;
  /**
   * The holders: one entry per thread, or per traced hold; one per permit in use if a KeyedLock has a limit
   * above 1. Traced acquisitions include keys, hold time and call site.
   */
  holders: {
    /** The `threadId` of `node:worker_threads`. */
    threadId: number;
    /** The keys of the acquisition, if it was traced. */
    keys?: LockKey[];
    /** Milliseconds since the acquisition, if it was traced. */
    heldFor?: number;
    /** The call site, if the acquisition was traced. */
    acquiredAt?: string;
  }[];
  /** The waiters, in queue order. */
  waiters: {
    /** The `threadId` of `node:worker_threads`. */
    threadId: number;
    /** Whether the waiter blocks its thread, or waits on the event loop. */
    kind: 'sync' | 'async';
    /** The requested mode. */
    mode: LockMode;
    /**
     * Milliseconds since the wait began. 0 if the waiter queues behind another waiter of its thread and
     * `inspect()` runs in a different thread. In such a queue, the value for an acquisition with a timeout of
     * a second or more can be too low, by at most 1/256 of the timeout.
     */
    waitingFor: number;
    /** The keys of the acquisition, if it is traced. */
    keys?: LockKey[];
  }[];
}

/** Options of `new KeyedLock(options)`; see {@link KeyedLock}. */
export interface KeyedLockOptions {
  /**
   * The maximum number of keys in use at the same time, across all threads, an integer 1 … 1_048_576. An
   * acquisition that needs more keys fails with a LockError (ERR_LOCK_CAPACITY) and acquires nothing. Threads
   * also cache recently used keys; together, the caches may contain up to half of this number. Default
   * 65_536.
   */
  capacity?: number;
  /**
   * The maximum number of simultaneous holders of a key, across all threads, an integer 1 … 1_048_576. With a
   * limit above 1, the lock has permits and no shared mode. Default 1, an exclusive lock.
   */
  limit?: number;
  /**
   * Default timeout of a whole acquisition, for any number of keys, in milliseconds. Default 5000. Infinity waits
   * forever.
   */
  timeout?: number;
  /** Shown in errors, inspect() and diagnostics. Default ''. */
  name?: string;
  /**
   * The engine. Default: 'native' where the addon loads, else 'javascript'. With 'native', the constructor
   * throws if the addon cannot load. With 'javascript', the lock works only in the thread that creates it.
   */
  engine?: 'native' | 'javascript';
  /** Record time and call site of every acquisition for inspect() and errors. Slower. Default false. */
  trace?: boolean;
}

/**
 * A type without values. If a program requests the shared mode of a lock with permits, the compiler's message
 * contains the name of this type's property.
 */
export interface PermitsHaveNoSharedMode {
  /** Explains the cause in the compiler's message. */
  readonly sharedModeNeedsALimitOf1: never;
}

/** Counters of a {@link KeyedLock}, summed over all threads. */
export interface KeyedLockStats extends StripedLockStats {
  /** The maximum number of keys in use at the same time, across all threads. */
  capacity: number;
  /**
   * The same as {@link capacity}, because each key in use occupies a stripe. The stripe is reused for another
   * key later.
   */
  stripes: number;
  /** Keys held now. */
  held: number;
}

/** The modes of a {@link KeyedLock} with this limit. A lock with permits has no shared mode. */
export type KeyedLockMode<L extends number> = 1 extends L
  ? LockMode
  : 'exclusive' | ('shared' & PermitsHaveNoSharedMode);

/** An opaque, structured-cloneable handle. Pass it to another thread by workerData or postMessage. */
export interface KeyedLockHandle {
  /** The class that the handle belongs to. */
  readonly kind: 'stripelock/keyed-lock';
  readonly [opaque: string]: unknown;
}

/** The state of one key, across all threads. */
export interface OneKeyState {
  /**
   * Whether an exclusive acquisition would be granted without waiting for holders. In a lock with permits:
   * whether a permit is left.
   */
  readonly free: boolean;
  /** The mode in which the key is held. Undefined if the key is not held. */
  readonly mode: LockMode | undefined;
  /** The number of acquisitions that hold the key. */
  readonly holders: number;
  /**
   * The number of acquisitions that wait for the key. The JavaScript engine counts only acquisitions of this
   * thread.
   */
  readonly waiters: number;
  /**
   * The number of further exclusive acquisitions that could hold the key now; 0 or 1 in a lock without
   * permits.
   */
  readonly permitsLeft: number;
}

/** One key that is held or waited for. */
export interface KeyState extends Omit<StripeState, 'stripe'> {
  /** The key. Bytes are a copy. */
  key: LockKey;
}

/**
 * A `URL`, reduced to the member that the package reads, for programs without a type library that declares
 * the class.
 */
export interface HostUrl {
  /** The whole URL. */
  readonly href: string;
}
