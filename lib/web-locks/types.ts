import type { HostSignal, LockMode } from '../common/types.js';
import type { Lock } from './lock.js';

/** For `locks.request(name, options, callback)` of `stripelock/web-locks`. */
export interface LockOptions {
  /** Default 'exclusive'. Shared requests are granted together; none passes an exclusive one that was made before. */
  mode?: LockMode;
  /** Call back with null if the lock cannot be granted at once. Default false. */
  ifAvailable?: boolean;
  /**
   * Take the lock from all who hold it, and pass all who wait. The promises of those who held it reject with an
   * AbortError; their callbacks go on. Default false.
   */
  steal?: boolean;
  /**
   * Aborting takes back a request that was not granted yet, and its promise rejects with signal.reason. It does nothing
   * once the callback runs.
   */
  signal?: HostSignal;
  /**
   * Milliseconds for the wait. If the lock is not granted in time, the promise rejects with a DOMException named
   * TimeoutError. 0 makes one attempt. Default: Infinity, which waits forever. Not part of the standard.
   */
  timeout?: number;
}

/** Called with the lock once it is granted, or with null: see `ifAvailable`. The lock is held until its result settles. */
export type LockGrantedCallback<T> = (lock: Lock | null) => T;

/** One request, as `query()` shows it. */
export interface LockInfo {
  /** What is locked. */
  name: string;
  /** The mode of the request. */
  mode: LockMode;
  /** Names the thread that made it: `node-<process id>-<thread id>`. */
  clientId: string;
}

/** What `query()` shows. */
export interface LockManagerSnapshot {
  /** Requests that were granted and have not ended. */
  held: LockInfo[];
  /** Requests that wait; those for one name in the order in which they are granted. */
  pending: LockInfo[];
}

/** For `new LockManager(options)` of `stripelock/web-locks`. */
export interface LockManagerOptions {
  /** Shown in the messages of the channel `stripelock:web-locks`. Default ''. */
  name?: string;
}
