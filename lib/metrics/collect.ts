import { WAIT_BOUNDS } from '../engine/contract/wait-times.js';
import { lockCounts } from '../engine/select.js';

/** The counters of all locks with one name, summed over the threads of the process. */
export interface LockMetrics {
  /**
   * The name of the locks; empty for locks without one. If locks with more than 1000 names were closed, further names
   * are counted there, too.
   */
  readonly name: string;
  /** The number of open locks with this name. */
  readonly locks: number;
  /** Keys held now for a `KeyedLock`, stripes for a `StripedLock`. */
  readonly held: number;
  /** Acquisitions waiting now. */
  readonly waiting: number;
  /**
   * Acquisitions that had to wait. This counter and those below never decrease, even if locks are closed or threads
   * end.
   */
  readonly contended: number;
  /** Acquisitions that timed out. */
  readonly timeouts: number;
  /** Acquisitions that were aborted by their signal. */
  readonly aborts: number;
  /** Acquisitions that were refused as deadlocks. */
  readonly deadlocks: number;
  /** Stripes or keys freed because the holding thread ended. */
  readonly abandoned: number;
  /**
   * The durations of all waits that have ended, with any outcome, and started after the first call of {@link collect}.
   */
  readonly waits: WaitTimes;
}

/** A histogram. */
export interface WaitTimes {
  /** The upper bounds of the ranges in seconds. They are constant. The last range is unbounded. */
  readonly bounds: readonly number[];
  /** The number of waits in each range; one more element than `bounds`. */
  readonly counts: readonly number[];
  /** The total number of waits. */
  readonly count: number;
  /** The total duration in seconds. */
  readonly sum: number;
}

const NANOSECONDS = 1e9;

/**
 * The counters of `StripedLock`s, `KeyedLock`s and `ProcessLock`s, by name, for all threads of the process that use this
 * package. A `ProcessLock` without a name is listed by its path, and counts this process alone. Any thread may call this; the
 * others need no code for it. Like `lock.stats()`, it reads every stripe or key that was ever used: some milliseconds for a
 * million.
 *
 * From the first call on, all threads measure their waits, which costs some tenths of a microsecond per waiting
 * acquisition. Other acquisitions cost nothing extra.
 *
 * Throws a LockError (ERR_LOCK_ENGINE) without the addon.
 */
export function collect(): LockMetrics[] {
  return lockCounts().map(({ nanoseconds, waits, ...counts }) => ({
    ...counts,
    waits: {
      bounds: WAIT_BOUNDS,
      counts: waits,
      count: waits.reduce((sum, each) => sum + each, 0),
      sum: nanoseconds / NANOSECONDS,
    },
  }));
}
