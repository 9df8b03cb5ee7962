import type { CapturedStack } from '../../common/stacks.js';
import type { Failure } from './engine.js';

/**
 * A draw decides at random whether a profile records a wait. Its result is 0 if the draw has not been made
 * yet, and 1 if the wait is not recorded. All numbers from {@link DRAW_RECORDED} up mean that the wait is
 * recorded; the number then identifies the profile. `Draw` in `native/core/table/contention_profile.h` has
 * the same numbers.
 */
export const DRAW_NONE = 0;
export const DRAW_RECORDED = 2;

/** An acquisition that has started to wait. */
export interface BegunWait {
  /** When the wait started, by `performance.now()`. */
  readonly since: number;
  /**
   * A `sync` wait blocks the thread, so its stack is the same at the end of the wait and is not captured at
   * the start.
   */
  readonly kind: 'sync' | 'async';
  /** The call stack of an async wait, if it was captured; otherwise undefined. */
  readonly place: CapturedStack | undefined;
  /** The result of the draw for an async wait. The release that ends the wait makes the draw. */
  draw: number;
}

/** Another process of the machine that held a key. */
export interface HoldingProcess {
  /** The id of the process. */
  readonly pid: number;
  /**
   * The title of the process: `process.title` if the program has set it, otherwise the command line. Cut to
   * about 120 bytes. Empty if it is unknown.
   */
  readonly title: string;
}

/** The fields of a {@link WaitRecord} that the caller of {@link ContentionRecorder.ended} provides. */
export interface EndedWait {
  readonly lock: string;
  /** The key, formatted as in error messages. */
  readonly key: string;
  readonly stripe: number;
  readonly mode: string;
  readonly outcome: 'granted' | 'aborted' | Exclude<Failure['status'], 'interrupted'>;
  /**
   * If the acquisition timed out: the ids of the threads that held the stripe at that time, as far as known.
   */
  readonly holders: readonly number[];
  /**
   * For a `ProcessLock`: the other processes that held the key when the wait began. Undefined for other locks,
   * and if they were not read: see {@link ContentionRecorder.capture}.
   */
  readonly processes?: readonly HoldingProcess[] | undefined;
}

/** The fields of a {@link WaitRecord} that the caller of {@link LeaseRecorder.ended} provides. */
export interface EndedLeaseWait extends Omit<EndedWait, 'stripe' | 'processes'> {
  /**
   * If the lease was not granted: the names of the owners that held the key at the end of the wait, as far
   * as known.
   */
  readonly owners: readonly string[];
}

/**
 * A recorded wait. Times are in milliseconds, on a clock that all threads share. A frame is one line of a
 * stack trace.
 */
export interface WaitRecord extends EndedWait {
  readonly event: 'wait';
  readonly kind: 'sync' | 'async';
  /** Identifies the lock within the process. For a lease, it identifies the store and the key. */
  readonly id: number | string;
  readonly thread: number;
  readonly from: number;
  readonly to: number;
  /**
   * The profile always records waits of at least this many milliseconds, and a sample of the shorter waits.
   */
  readonly every: number;
  /** The frames of the waiting call. Empty if the stack was not captured. */
  readonly frames: readonly string[];
  /** See {@link EndedLeaseWait.owners}. Undefined for locks. */
  readonly owners?: readonly string[];
}

/**
 * A recorded release. The release granted a stripe to a waiter, or woke a waiter. The profile also has a
 * record of that waiter's wait. A release of a lease is recorded if a wait for its key has lasted long enough
 * to be recorded.
 */
export interface ReleaseRecord {
  readonly event: 'release';
  readonly id: number | string;
  readonly stripe: number;
  readonly thread: number;
  readonly at: number;
  readonly frames: readonly string[];
}

export type ContentionRecord = WaitRecord | ReleaseRecord;

/** Records the waits for one lock in one thread. */
export interface ContentionRecorder {
  /** Whether a profile of this lock is running. */
  readonly isOn: boolean;
  /**
   * Captures the stack of an acquisition that is about to wait on the event loop. To save time, returns
   * undefined if this recorder has just captured another stack. `now`: the time by `performance.now()`.
   */
  capture(now: number): CapturedStack | undefined;
  /**
   * Call this after a wait that started while a profile was running. Records the wait, unless the draw
   * excluded it. The function `wait` provides the fields of the record; it is called only if the wait is
   * recorded. Never throws.
   */
  ended(begun: BegunWait, wait: () => EndedWait): void;
}

/** A call that may have to wait for a lease while a profile is running. */
export interface LeaseCall {
  /** The call's stack, if it was captured; otherwise undefined. */
  readonly place: CapturedStack | undefined;
  /** When the call began, by `performance.now()`. */
  readonly since: number;
}

/** A call that has started to wait for a lease. */
export interface BegunLeaseWait extends LeaseCall {
  /** Identifies the store and the key. */
  readonly id: string;
  /** The number of the wait in the addon. */
  readonly wait: number;
  /** See {@link WaitRecord.every}. */
  readonly every: number;
}

/** Records the waits for leases and the releases of leases in one thread. Its methods never throw. */
export interface LeaseRecorder {
  /** Call this before the store is asked, while the program's call is on the stack. */
  call(since: number): LeaseCall;
  /** Call this when a call has to wait. Undefined if the wait cannot be recorded. */
  began(call: LeaseCall, id: string): BegunLeaseWait | undefined;
  /** Like {@link ContentionRecorder.ended}. */
  ended(begun: BegunLeaseWait, wait: () => EndedLeaseWait): void;
  /**
   * Call this before the store is asked to release, while the program's call is on the stack. Call the returned
   * function to record the release. Undefined if the release is not recorded.
   */
  releasing(id: string): (() => void) | undefined;
}

/** Profiles the contention of locks in all threads of the process. */
export interface ContentionEngine {
  /** Records this thread's waits for leases. */
  readonly leases: LeaseRecorder;
  /**
   * Starts a profile. Returns false if a profile is already running. Waits shorter than `threshold`
   * milliseconds are not recorded. Waits of at least `every` milliseconds are always recorded. Without names,
   * the profile covers all locks.
   */
  start(threshold: number, every: number, names: readonly string[]): boolean;
  /** Stops the profile. The records of this thread's earlier waits and releases are kept for {@link take}. */
  stop(): void;
  /**
   * Returns the records that were added since the last call, including all records of this thread. `leftOut`:
   * the number of records that were dropped because there were too many.
   */
  take(): { readonly records: readonly ContentionRecord[]; readonly leftOut: number };
}
