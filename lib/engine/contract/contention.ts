import type { CapturedStack } from '../../common/stacks.js';
import type { Failure } from './engine.js';

/**
 * Results of a draw: the random decision whether a profile records a wait. The results are 0 (not drawn yet),
 * 1 (not recorded), and all numbers from {@link DRAW_RECORDED} up (recorded), which identify the profile.
 * `Draw` in `native/core/table/contention_profile.h` has the same numbers.
 */
export const DRAW_NONE = 0;
export const DRAW_RECORDED = 2;

/** An acquisition that has started to wait. */
export interface BegunWait {
  /** When the wait started, by `performance.now()`. */
  readonly since: number;
  /** A sync wait needs no captured stack, because its stack is still the same when the wait ends. */
  readonly kind: 'sync' | 'async';
  /** The call stack of an async wait, if it was captured; otherwise undefined. */
  readonly place: CapturedStack | undefined;
  /**
   * The draw that decides whether this async wait is recorded. The release that ends the wait makes the draw.
   */
  draw: number;
}

/** The fields of a wait's record that the caller of the recorder provides. */
export interface EndedWait {
  readonly lock: string;
  /** The key, formatted as in error messages. */
  readonly key: string;
  readonly stripe: number;
  readonly mode: string;
  readonly outcome: 'granted' | 'aborted' | Failure['status'];
  /** If the acquisition failed: the ids of the threads that held the stripe at the end, as far as known. */
  readonly holders: readonly number[];
}

/**
 * A recorded wait. Times are in milliseconds, on a clock that all threads share. A frame is one line of a
 * stack trace.
 */
export interface WaitRecord extends EndedWait {
  readonly event: 'wait';
  readonly kind: 'sync' | 'async';
  /** Identifies the lock within the process. */
  readonly id: number;
  readonly thread: number;
  readonly from: number;
  readonly to: number;
  /**
   * The profile always records waits of at least this many milliseconds, and a sample of the shorter ones.
   */
  readonly every: number;
  /** The frames of the waiting call. Empty if the stack was not captured. */
  readonly frames: readonly string[];
}

/**
 * A recorded release. It granted a stripe to a waiter or woke the waiter, and the profile also records the
 * waiter's wait.
 */
export interface ReleaseRecord {
  readonly event: 'release';
  readonly id: number;
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
   * Captures the stack of an acquisition that is about to wait on the event loop. Returns undefined, to save
   * time, if this recorder captured another stack just before.
   */
  capture(now: number): CapturedStack | undefined;
  /**
   * Records the end of a wait that started while a profile was running, unless the draw excludes the wait.
   * Calls `wait` to get the caller's fields. Never throws.
   */
  ended(begun: BegunWait, wait: () => EndedWait): void;
}

/** Profiles the contention of locks in all threads of the process. */
export interface ContentionEngine {
  /**
   * Starts a profile. Returns false if one is already running. Waits shorter than `threshold` milliseconds
   * are not recorded. Waits of at least `every` milliseconds are always recorded. Without names, the profile
   * covers all locks.
   */
  start(threshold: number, every: number, names: readonly string[]): boolean;
  stop(): void;
  /**
   * Returns the records since the last call, and the number of records that were dropped because there were
   * too many.
   */
  take(): { readonly records: readonly ContentionRecord[]; readonly leftOut: number };
}
