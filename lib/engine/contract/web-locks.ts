import type { EngineName } from './engine.js';
import type { Mode } from './mode.js';

export type WebLockHow = 'wait' | 'ifAvailable' | 'steal';

/** A request as the engine sees it. Belongs to one thread. */
export interface WebLockRequester {
  /** The engine uses it while the request is pending or held; -1 otherwise. */
  ticket: number;
  /** A pending request was granted. Called on its own thread with an empty stack, never from within a call of WebLocks. */
  granted(): void;
  /** A held request was stolen. Called as `granted` is; for one that was granted and not yet told, after `granted`. */
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

/** One thread's view of one manager of web locks. Strict order for each name: first come, first served, no barging. */
export interface WebLocks {
  /** The manager's, for a handle. */
  readonly number: number;
  /** 'held': granted at once. 'pending': `granted` is called later; the event loop stays alive until then. 'unavailable': only for ifAvailable; nothing is left behind. */
  request(
    name: string,
    mode: Mode,
    how: WebLockHow,
    requester: WebLockRequester,
  ): 'held' | 'pending' | 'unavailable';
  /** Takes a pending request back. False: it was granted already, even if `granted` was not called yet (it will not be called any more: the caller releases it). */
  cancel(requester: WebLockRequester): boolean;
  /** Gives a held request up, whether or not `granted` was called. False: it was stolen before, and nothing changes; then `stolen` is not called any more. */
  release(requester: WebLockRequester): boolean;
  /** All threads' requests: in the order of each name's queue. */
  query(): WebLockSnapshot;
}

/**
 * Opens managers, for all threads that have the same {@link id}. A manager is a number, and nothing else: it need not be
 * closed, and what names it may be kept or lost anywhere.
 */
export interface WebLockEngine {
  readonly name: EngineName;
  /** What a handle must carry, besides the number, to be opened here. */
  readonly id: readonly [number, number];
  /**
   * This thread's view of the manager with that number, or of a new one. Throws a LockError, code ERR_LOCK_ENGINE, for
   * a number that was not given out.
   */
  open(number?: number): WebLocks;
}

/** The number of the manager that every thread has. */
export const DEFAULT_MANAGER = 0;
