import { clearTimeout, setTimeout } from '../common/host.js';
import type { ReleaseFeed } from './wakers.js';

/**
 * The shortest and the longest pause between two polls, in milliseconds. The pause is random, so that stores
 * take turns.
 */
const SHORTEST = 25;
const LONGEST = 50;
/** Milliseconds between a failed poll and the next one. */
const RETRY = 1000;

/**
 * A feed for a server that does not report releases. While acquisitions wait, each poll checks all of their
 * keys with one request. The store counts as unsubscribed, so a release through this store wakes the store's
 * own waiters at once. The next poll finds releases through other stores.
 *
 * `heldOf` returns the names of those keys that are held.
 */
export function polledReleases(
  heldOf: (names: readonly string[]) => Promise<ReadonlySet<string>>,
): ReleaseFeed {
  return {
    retryAfter: RETRY,
    open({ released, lost }, awaited) {
      let isOpen = true;
      let timer: NodeJS.Timeout;
      const poll = async (): Promise<void> => {
        const names = awaited();
        const held = names.length === 0 ? new Set<string>() : await heldOf(names);
        if (!isOpen) return;
        for (const name of names) if (!held.has(name)) released(name);
        pollLater();
      };
      // The timer need not keep the process alive, because the client's connections do.
      const pollLater = (): void => {
        const pause = SHORTEST + Math.random() * (LONGEST - SHORTEST);
        timer = setTimeout(() => void poll().catch(lost), pause).unref();
      };
      pollLater();
      return () => {
        isOpen = false;
        clearTimeout(timer);
      };
    },
  };
}
