import { WAIT_BOUNDS } from '../engine/contract/wait-times.js';
import { lockCounts } from '../engine/select.js';

/** What the locks with one name have counted, in all threads of the process. */
export interface LockMetrics {
  /** Their name; empty for those without one. Of locks that are gone, more than 1000 names are counted there, too. */
  readonly name: string;
  /** How many locks with this name are open now. */
  readonly locks: number;
  /** Keys held now, of a `KeyedLock`; of a `StripedLock` stripes. */
  readonly held: number;
  /** Acquisitions waiting now. */
  readonly waiting: number;
  /** Acquisitions that had to wait. This and the next only rise, also when locks are closed and threads end. */
  readonly contended: number;
  /** Acquisitions that ran out of time. */
  readonly timeouts: number;
  /** Acquisitions that their signal ended. */
  readonly aborts: number;
  /** Acquisitions that were refused, as their wait could never have ended. */
  readonly deadlocks: number;
  /** Stripes or keys that were freed for threads that ended while they held them. */
  readonly abandoned: number;
  /** The time of each wait that has ended, however it did, and that began after the first call of {@link collect}. */
  readonly waits: WaitTimes;
}

/** A histogram. */
export interface WaitTimes {
  /** The upper ends of its ranges, in seconds; the same each time. The last range has none. */
  readonly bounds: readonly number[];
  /** How many waits are in each range; one more than there are bounds. */
  readonly counts: readonly number[];
  /** How many they are. */
  readonly count: number;
  /** How long they took together, in seconds. */
  readonly sum: number;
}

const NANOSECONDS = 1e9;

/**
 * What `StripedLock`s and `KeyedLock`s have counted, in all threads of the process that use this package, by name. No thread needs
 * code for this; any may call it. It looks at every stripe or key that was ever used, as `lock.stats()` does: some
 * milliseconds for a million of them.
 *
 * The first call has all threads measure waits from then on, which costs an acquisition that waits some tenths of a
 * microsecond; before, and for all others, it costs nothing.
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
