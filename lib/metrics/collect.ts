import type { LockKind } from '../engine/contract/counts.js';
import { WAIT_BOUNDS } from '../engine/contract/wait-times.js';
import { lockCounts } from '../engine/select.js';
import { instrumentsOf } from './instruments.js';

export type { LockKind };

/** The counts of all locks of one kind with one name, summed over the threads of the process. */
export interface LockMetrics {
  /**
   * `lock`: `StripedLock` and `KeyedLock`. `process`: `ProcessLock`, counted only for this process. `lease`:
   * the leases of `LeaseManager`s. `web-lock`: the locks of a `LockManager`.
   */
  readonly kind: LockKind;
  /**
   * The name of the locks; empty for a `StripedLock` or `KeyedLock` without a name. Other defaults: the path
   * for a `ProcessLock`, `leases` for a `LeaseManager`, and `web-locks` for a `LockManager`. Closed locks and
   * ended threads keep at most 1000 names, and each running thread's managers at most 1000 names. Further
   * names are counted together under the empty name.
   */
  readonly name: string;
  /** The number of open locks with this name. Open managers of leases or web locks count once per thread. */
  readonly locks: number;
  /**
   * The number of keys that are held now. For a `StripedLock`, the number of held stripes. For a
   * `LockManager`, the number of holders of all names.
   */
  readonly held: number;
  /** The number of acquisitions that wait now. */
  readonly waiting: number;
  /**
   * The number of acquisitions that had to wait. A lease counts here if its first attempt was refused or
   * failed. This counter and the counters below never decrease, even if locks are closed or threads end.
   */
  readonly contended: number;
  /** The number of acquisitions that timed out. */
  readonly timeouts: number;
  /** The number of acquisitions that were aborted by their signal. */
  readonly aborts: number;
  /** The number of acquisitions that were refused as deadlocks. Always 0 for leases and web locks. */
  readonly deadlocks: number;
  /**
   * The number of stripes, keys or names that were freed because the holding thread ended. The leases of such
   * a thread end with their TTL.
   */
  readonly abandoned: number;
  /**
   * The durations of all waits that have ended, with any outcome, except waits during which the thread or its
   * script was ended. For `lock` and `process`, only waits that started after the first call of
   * {@link collect}.
   */
  readonly waits: WaitTimes;
}

/** The counts of all leases of managers with the same name, including background renewals. */
export interface LeaseMetrics extends LockMetrics {
  readonly kind: 'lease';
  /** The number of keys that the store granted. If acquisitions share a key, the key counts once. */
  readonly acquired: number;
  /**
   * The number of single attempts that were refused because a key was held. `tryAcquire` and the option
   * `ifAvailable` make single attempts.
   */
  readonly refused: number;
  /** The number of renewals that succeeded. */
  readonly renewals: number;
  /** The number of operations on one key that failed, because the store failed or did not answer in time. */
  readonly failures: number;
  /** The number of leases that ended without a release. Closing a manager ends the leases that it holds. */
  readonly losses: number;
}

/** A member of the result of {@link collect}. */
export type Metrics =
  | (LockMetrics & {
      /** Any kind except `lease`. */
      readonly kind: Exclude<LockKind, 'lease'>;
    })
  | LeaseMetrics;

/** A histogram of the durations of waits. */
export interface WaitTimes {
  /**
   * The upper bounds of the ranges, in seconds. The bounds are constant. One more range,
   * the last one, has no upper bound.
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
 * Returns the counters of all `StripedLock`s, `KeyedLock`s, `ProcessLock`s, leases and web locks, by kind and
 * name. They include all threads of the process that use this package, but no other process.
 *
 * Any thread may call this, and the other threads need no code for it. Like `lock.stats()`, this reads every
 * stripe or key that was ever used: a million of them take a few milliseconds.
 *
 * Each thread counts its own leases and web locks. So the result does not include a grant or a loss that a
 * blocked event loop has not processed yet.
 *
 * After the first call, all threads measure their waits for locks. This costs some tenths of a microsecond per waiting
 * acquisition. Other acquisitions cost nothing extra.
 *
 * Throws a LockError (ERR_LOCK_ENGINE) without the addon.
 */
export function collect(): Metrics[] {
  return lockCounts().map(({ kind, name, waits, ...counts }) => {
    return {
      kind,
      name,
      ...Object.fromEntries(instrumentsOf(kind).map(({ field }) => [field, counts[field]])),
      waits: {
        bounds: WAIT_BOUNDS,
        counts: waits,
        count: waits.reduce((sum, each) => sum + each, 0),
        sum: counts.nanoseconds / NANOSECONDS,
      },
    } as Metrics;
  });
}
