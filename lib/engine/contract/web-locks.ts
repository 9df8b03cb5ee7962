import type { EngineName } from './engine.js';
import type { Mode } from './mode.js';

export type WebLockHow = 'wait' | 'ifAvailable' | 'steal';

/** A request, as the engine sees it. Belongs to one thread. */
export interface WebLockRequester {
  /** Set by the engine while the request is pending or held; -1 otherwise. */
  ticket: number;
  /**
   * Called when a pending request was granted, on its own thread with an empty stack, never from within a call of
   * WebLocks.
   */
  granted(): void;
  /** Called when a held request was stolen, like `granted`. If `granted` was not called yet, it is called first. */
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

/** One thread's view of one manager of web locks. Requests for a name are served strictly in order, without barging. */
export interface WebLocks {
  /** The manager's number in a handle. */
  readonly number: number;
  /**
   * 'held': granted at once. 'pending': `granted` is called later, and the event loop is kept alive until then.
   * 'unavailable': only with `ifAvailable`; the request leaves no trace.
   */
  request(
    name: string,
    mode: Mode,
    how: WebLockHow,
    requester: WebLockRequester,
  ): 'held' | 'pending' | 'unavailable';
  /**
   * Cancels a pending request. False if it was granted already; `granted` is then not called any more, and the caller
   * must release the request.
   */
  cancel(requester: WebLockRequester): boolean;
  /**
   * Releases a held request, whether or not `granted` was called. False if it was stolen before; nothing changes, and
   * `stolen` is not called any more.
   */
  release(requester: WebLockRequester): boolean;
  /** The requests of all threads, for each name in queue order. */
  query(): WebLockSnapshot;
}

/**
 * Opens managers, for all threads with the same {@link id}. A manager is only a number, so it need not be closed, and
 * its handle may be kept or lost.
 */
export interface WebLockEngine {
  readonly name: EngineName;
  /** The id that a handle must carry, besides the number, to be opened here. */
  readonly id: readonly [number, number];
  /**
   * This thread's view of the manager with that number, or of a new one. Throws a LockError (ERR_LOCK_ENGINE) for an
   * unknown number.
   */
  open(number?: number): WebLocks;
}

/** The number of the manager that every thread has. */
export const DEFAULT_MANAGER = 0;
