import type { HostSignal, LockMode } from '../common/types.js';
import type { Lock } from './lock.js';

/** Options of `locks.request(name, options, callback)` (`stripelock/web-locks`). */
export interface LockOptions {
  /**
   * Default 'exclusive'. Shared requests are granted together, but never pass an earlier exclusive request.
   */
  mode?: LockMode;
  /** If the lock cannot be granted at once, the callback is called with null. Default false. */
  ifAvailable?: boolean;
  /**
   * Takes the lock from all holders, ahead of all waiting requests. The promises of the previous holders
   * reject with an AbortError, but their callbacks keep running. Default false.
   */
  steal?: boolean;
  /**
   * Aborting withdraws a request that is not granted yet, and its promise rejects with signal.reason.
   * Aborting has no effect once the callback runs.
   */
  signal?: HostSignal;
  /**
   * Timeout in milliseconds. If the lock is not granted in time, the promise rejects with a
   * DOMException named TimeoutError. 0 makes one attempt. Default: Infinity, which waits
   * forever. Not part of the standard.
   */
  timeout?: number;
}

/**
 * Called with the lock when the lock is granted, or with null: see `ifAvailable`. The lock is
 * held until the result settles.
 */
export type LockGrantedCallback<T> = (lock: Lock | null) => T;

/** One request in the result of `query()`. */
export interface LockInfo {
  /** The locked name. */
  name: string;
  /** The mode of the request. */
  mode: LockMode;
  /** The thread that made the request: `node-<process id>-<thread id>`. */
  clientId: string;
}

/** The result of `query()`. */
export interface LockManagerSnapshot {
  /** Requests that were granted and have not ended. */
  held: LockInfo[];
  /** Waiting requests; for each name in the order in which they will be granted. */
  pending: LockInfo[];
}

/** Options of `new LockManager(options)` (`stripelock/web-locks`). */
export interface LockManagerOptions {
  /** Shown in the messages of the channel `stripelock:web-locks`. Default ''. */
  name?: string;
}
