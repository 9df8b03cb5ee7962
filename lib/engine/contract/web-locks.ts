import type { EngineName } from './engine.js';
import type { Mode } from './mode.js';

export type WebLockHow = 'wait' | 'ifAvailable' | 'steal';

/** The part of a request that the engine uses. A request belongs to one thread. */
export interface WebLockRequester {
  /**
   * The engine's id of the request while the request is pending or held; otherwise -1. Only the engine sets
   * it.
   */
  ticket: number;
  /**
   * The engine calls this method after it has granted a pending request. It does so on the request's thread
   * with an empty stack, and never from within a method of {@link WebLocks}.
   */
  granted(): void;
  /**
   * The engine calls this method in the same way as {@link granted}, after another request has stolen the
   * lock. If the engine has not called `granted` yet, it calls `granted` first.
   */
  stolen(): void;
}

export interface WebLockState {
  name: string;
  mode: Mode;
  threadId: number;
}
export interface WebLockSnapshot {
  held: WebLockState[];
  pending: WebLockState[];
}

/**
 * One thread's view of one manager of web locks. Requests for a name are granted strictly in order of
 * arrival, without barging.
 */
export interface WebLocks {
  /** The manager's number in a handle. */
  readonly number: number;
  /**
   * Makes a request. Returns 'held' if the request was granted immediately. Returns 'pending' if the request
   * must wait: {@link WebLockRequester.granted} is called later, and the event loop stays alive until then.
   * Returns 'unavailable' only with `ifAvailable`; the engine then has no record of the request.
   */
  request(
    name: string,
    mode: Mode,
    how: WebLockHow,
    requester: WebLockRequester,
  ): 'held' | 'pending' | 'unavailable';
  /**
   * Cancels a pending request. Returns false if the request was already granted. In that case `granted` will
   * not be called, and the caller must release the request.
   */
  cancel(requester: WebLockRequester): boolean;
  /**
   * Releases a held request, whether or not `granted` was called. Returns false if the request was already
   * stolen. In that case `stolen` will not be called.
   */
  release(requester: WebLockRequester): boolean;
  /** Returns the requests of all threads. The requests for one name are in queue order. */
  query(): WebLockSnapshot;
}

/**
 * Creates and opens managers. All threads whose engines have the same {@link id} share the managers. A
 * manager is only a number, so it need not be closed.
 */
export interface WebLockEngine {
  readonly name: EngineName;
  /** A handle can be opened here if it contains this id and the number of a manager. */
  readonly id: readonly [number, number];
  /**
   * Returns this thread's view of the manager with that number, or creates a manager if no number is given.
   * Throws a LockError (ERR_LOCK_ENGINE) for an unknown number.
   */
  open(number?: number): WebLocks;
}

/** The number of the default manager, which exists in every thread. */
export const DEFAULT_MANAGER = 0;
