import { WAIT_BOUNDS } from '../engine/contract/wait-times.js';
import { lockCounts } from '../engine/select.js';

/** The counters of all locks with one name, summed over the threads of the process. */
export interface LockMetrics {
  /**
   * The name of the locks. Empty for locks without a name. If locks with more than 1000 different names were
   * closed, those with further names are counted here, too.
   */
  readonly name: string;
  /** The number of open locks with this name. */
  readonly locks: number;
  /** The number of keys that are held now. For a `StripedLock`, the number of stripes. */
  readonly held: number;
  /** The number of acquisitions that wait now. */
  readonly waiting: number;
  /**
   * The number of acquisitions that had to wait. This counter and the counters below never decrease, even if
   * locks are closed or threads end.
   */
  readonly contended: number;
  /** The number of acquisitions that timed out. */
  readonly timeouts: number;
  /** The number of acquisitions that were aborted by their signal. */
  readonly aborts: number;
  /** The number of acquisitions that were refused as deadlocks. */
  readonly deadlocks: number;
  /** The number of stripes or keys that were freed because the holding thread ended. */
  readonly abandoned: number;
  /**
   * The durations of all waits that started after the first call of {@link collect}
   * and have ended, with any outcome.
   */
  readonly waits: WaitTimes;
}

/** A histogram of the durations of waits. */
export interface WaitTimes {
  /**
   * The upper bounds of the ranges, in seconds. They are constant. One more
   * range, the last one, is unbounded.
   */
  readonly bounds: readonly number[];
  /** The number of waits in each range; one more element than `bounds`. */
  readonly counts: readonly number[];
  /** The total number of waits. */
  readonly count: number;
  /** The total duration of the waits, in seconds. */
  readonly sum: number;
}

const NANOSECONDS = 1e9;

/**
 * Returns the counters of all `StripedLock`s, `KeyedLock`s and `ProcessLock`s, by name. They include all
 * threads of the process that use this package. For a `ProcessLock`, they include only this process. A
 * `ProcessLock` without a name is listed by its path.
 *
 * Any thread may call this, and the other threads need no code for it. Like `lock.stats()`, it reads every
 * stripe or key that was ever used. That takes a few milliseconds for a million.
 *
 * After the first call, all threads measure their waits. This costs some tenths of a microsecond per waiting
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
