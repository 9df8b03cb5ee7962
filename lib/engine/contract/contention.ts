import type { CapturedStack } from '../../common/stacks.js';
import type { Failure } from './engine.js';

/**
 * Whether a wait is recorded: no thread has drawn for it, it is left out, or it is recorded. As `Draw` in the core, where this and
 * all higher numbers of the last kind name the profile.
 */
export const DRAW_NONE = 0;
export const DRAW_RECORDED = 2;

/** An acquisition that has to wait. */
export interface BegunWait {
  /** When, on the clock of `performance.now()`. */
  readonly since: number;
  /** If it blocks its thread, its stack is there until it ends. */
  readonly kind: 'sync' | 'async';
  /** The stack of its call, if it waits on the event loop and that was captured. */
  readonly place: CapturedStack | undefined;
  /** What the release that ended it has drawn, if it waits on the event loop. */
  draw: number;
}

/** What is recorded of a wait, but for what the recorder itself knows. */
export interface EndedWait {
  readonly lock: string;
  /** The key, as errors show it. */
  readonly key: string;
  readonly stripe: number;
  readonly mode: string;
  readonly outcome: 'granted' | 'aborted' | Failure['status'];
  /** Ids of the threads that held the stripe at the end, as far as known, if it was not granted. */
  readonly holders: readonly number[];
}

/** What threads record. Times are milliseconds on a clock that all threads share. A frame is a line of a stack. */
export interface WaitRecord extends EndedWait {
  readonly event: 'wait';
  readonly kind: 'sync' | 'async';
  /** Names the lock in the process. */
  readonly id: number;
  readonly thread: number;
  readonly from: number;
  readonly to: number;
  /** Milliseconds that were enough to be recorded in any case. */
  readonly every: number;
  /** Empty if they were not captured. */
  readonly frames: readonly string[];
}

/** A release that has let in, or called, a waiter whose wait is recorded. */
export interface ReleaseRecord {
  readonly event: 'release';
  readonly id: number;
  readonly stripe: number;
  readonly thread: number;
  readonly at: number;
  readonly frames: readonly string[];
}

export type ContentionRecord = WaitRecord | ReleaseRecord;

/** How one lock's waits in one thread are recorded. */
export interface ContentionRecorder {
  /** Whether a profile is taken of this lock now. */
  readonly isOn: boolean;
  /** An acquisition is about to wait on the event loop: its stack, but not if another was captured just before. */
  capture(now: number): CapturedStack | undefined;
  /** A wait has ended that began while it was on. Never throws. */
  ended(begun: BegunWait, wait: () => EndedWait): void;
}

/** Takes profiles, for all threads of the process. */
export interface ContentionEngine {
  /** False if one is being taken. `threshold`, `every`: milliseconds. No names: all locks. */
  start(threshold: number, every: number, names: readonly string[]): boolean;
  stop(): void;
  /** What was recorded since the last call, and how many records had no room meanwhile. */
  take(): { readonly records: readonly ContentionRecord[]; readonly leftOut: number };
}
