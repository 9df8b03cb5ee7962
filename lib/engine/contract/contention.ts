import type { CapturedStack } from '../../common/stacks.js';
import type { Failure } from './engine.js';

/**
 * The values of a draw, which decides whether a wait is recorded: no draw yet, not recorded (1), or recorded. As `Draw`
 * in the core. Numbers from {@link DRAW_RECORDED} also identify the profile.
 */
export const DRAW_NONE = 0;
export const DRAW_RECORDED = 2;

/** An acquisition that has started to wait. */
export interface BegunWait {
  /** When the wait started, by `performance.now()`. */
  readonly since: number;
  /** The stack of a sync wait is still there when the wait ends. */
  readonly kind: 'sync' | 'async';
  /** The call stack of an async wait, if it was captured. */
  readonly place: CapturedStack | undefined;
  /** The draw of the release that ended an async wait. */
  draw: number;
}

/** The part of a wait's record that the recorder does not know itself. */
export interface EndedWait {
  readonly lock: string;
  /** The key, as errors show it. */
  readonly key: string;
  readonly stripe: number;
  readonly mode: string;
  readonly outcome: 'granted' | 'aborted' | Failure['status'];
  /** If it was not granted, the ids of the threads that held the stripe at the end, as far as known. */
  readonly holders: readonly number[];
}

/** A recorded wait. Times are milliseconds on a clock that all threads share. A frame is one line of a stack. */
export interface WaitRecord extends EndedWait {
  readonly event: 'wait';
  readonly kind: 'sync' | 'async';
  /** Identifies the lock within the process. */
  readonly id: number;
  readonly thread: number;
  readonly from: number;
  readonly to: number;
  /** Waits of at least this many milliseconds are always recorded. */
  readonly every: number;
  /** Empty if the stack was not captured. */
  readonly frames: readonly string[];
}

/** A release that granted a stripe to a waiter, or woke it, whose wait is recorded. */
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
  /** Whether a profile of this lock is being taken. */
  readonly isOn: boolean;
  /**
   * Captures the stack of an acquisition that is about to wait on the event loop. Undefined if another stack was
   * captured just before.
   */
  capture(now: number): CapturedStack | undefined;
  /** Records the end of a wait that started while a profile was taken. Never throws. */
  ended(begun: BegunWait, wait: () => EndedWait): void;
}

/** Takes profiles of all threads of the process. */
export interface ContentionEngine {
  /**
   * False if a profile is already being taken. `threshold` and `every` are in milliseconds. Without names, it covers
   * all locks.
   */
  start(threshold: number, every: number, names: readonly string[]): boolean;
  stop(): void;
  /** The records since the last call, and the number of records that were dropped for lack of space. */
  take(): { readonly records: readonly ContentionRecord[]; readonly leftOut: number };
}
