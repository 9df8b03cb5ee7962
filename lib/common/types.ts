/** What is locked. A string is hashed as its UTF-8 bytes; a number must be a safe integer. */
export type LockKey = string | number | Uint8Array;

/** Shared holders exclude only exclusive ones. */
export type LockMode = 'exclusive' | 'shared';

export interface StripedLockOptions {
  /** Number of stripes, an integer 1 … 1_048_576. Default 1024. */
  stripes?: number;
  /** Default time allowed for one whole acquisition, however many keys, in milliseconds. Default 5000. Infinity waits for ever. */
  timeout?: number;
  /** Shown in errors, inspect() and diagnostics. Default ''. */
  name?: string;
  /** Default: 'native' where the addon loads, else 'javascript'. Naming 'native' where it cannot load throws. */
  engine?: 'native' | 'javascript';
  /** Record keys, time and call site of every acquisition for inspect() and errors. Slower. Default false. */
  trace?: boolean;
}

export interface AcquireOptions<M extends LockMode = LockMode> {
  /** Milliseconds for the whole acquisition. 0 makes one attempt. Infinity waits for ever. Default: the lock's own. */
  timeout?: number;
  /** Default 'exclusive'. */
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

/** Counters of one lock, all threads together. */
export interface StripedLockStats {
  engine: 'native' | 'javascript';
  stripes: number;
  /** Stripes held now. */
  held: number;
  /** Acquisitions waiting now. */
  waiting: number;
  /** Acquisitions that had to wait, since creation; so are the counters below. */
  contended: number;
  timeouts: number;
  aborts: number;
  /** Acquisitions refused as deadlocks. */
  deadlocks: number;
  /** Stripes freed for threads that ended while they held them. */
  abandoned: number;
}

/** One stripe that is held or waited for. */
export interface StripeState {
  stripe: number;
  mode: LockMode | undefined;
  holders: { threadId: number; keys?: LockKey[]; heldFor?: number; acquiredAt?: string }[];
  waiters: {
    threadId: number;
    kind: 'sync' | 'async';
    mode: LockMode;
    /** Milliseconds. */
    waitingFor: number;
    keys?: LockKey[];
  }[];
}
