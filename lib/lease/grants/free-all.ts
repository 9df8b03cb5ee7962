import { LONGEST_DELAY } from '../../common/alarm.js';
import { localNow } from '../../common/elapsed.js';
import type { LockError } from '../../common/errors.js';
import { pause } from '../../common/pause.js';
import { isPermanent } from '../contract/errors.js';
import type { Hold, HoldContext } from '../hold/hold.js';

/** Releases under way at once. Thousands would wait for one another in the client until each exceeds its time limit. */
const MOST = 50;

interface Release {
  readonly hold: Hold;
  /** When the lease expires, in real time: the manager's clock may stand still. */
  readonly endsAt: number;
  /** The error of the last attempt; undefined if it succeeded. */
  failure: LockError | undefined;
}

/**
 * Frees the holds, a few at a time. A release that fails is repeated, by the backoff, until its lease expires. Resolves to
 * the error of a release that failed to the end.
 */
export async function freeAll(
  holds: readonly Hold[],
  free: (hold: Hold) => Promise<unknown>,
  { backoff, schedule }: Pick<HoldContext, 'backoff' | 'schedule'>,
): Promise<LockError | undefined> {
  const ahead = localNow() - schedule.now();
  let failure: LockError | undefined;
  let left: readonly Release[] = holds.map((hold) => {
    return { hold, endsAt: hold.expiresAt + ahead, failure: undefined };
  });
  for (let length = backoff.initial; ; length = Math.min(2 * length, backoff.max)) {
    await freeOnce(left, free);
    const soon = localNow() + length;
    const failed = left.filter((release) => release.failure !== undefined);
    const isRepeated = (release: Release): boolean => release.endsAt > soon && !isPermanent(release.failure);
    left = failed.filter(isRepeated);
    failure ??= failed.find((release) => !isRepeated(release))?.failure;
    if (left.length === 0) return failure;
    await pause(Math.min(length, LONGEST_DELAY));
  }
}

/** Never rejects. Once the store has failed, leases that have expired are left to it. */
async function freeOnce(releases: readonly Release[], free: (hold: Hold) => Promise<unknown>): Promise<void> {
  const rest = releases.values();
  let fails = false;
  const freeNext = async (): Promise<void> => {
    for (const release of rest) {
      if (fails && release.endsAt <= localNow()) continue;
      try {
        await free(release.hold);
        release.failure = undefined;
      } catch (error) {
        release.failure = error as LockError;
        fails = true;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(MOST, releases.length) }, freeNext));
}
