// The ways in which a worker uses a lock again and again, until it has done enough.
import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * - `done()`: how often it has used the lock; `rounds`: how often it shall.
 * - `block()` and `attempt()` use it once, the latter if it is free.
 * - `wait(turnsHeld)` uses it once, and keeps it for that many turns of the event loop.
 * - `next()`: which of `block`, `attempt` and `pend` comes next in `mixed`; `pend()` returns a promise.
 */
export function mannersOf({ done, rounds, block, attempt, wait, next, pend }) {
  async function waitAgainAndAgain(turnsHeld) {
    while (done() < rounds) {
      await wait(turnsHeld);
      if (done() % 16 === 0) await nextTurn();
    }
  }

  return {
    sync() {
      while (done() < rounds) block();
    },
    async: () => Promise.all(Array.from({ length: 8 }, () => waitAgainAndAgain(0))),
    /** Keeps what it gets for some turns of the event loop. */
    keeping: () => Promise.all(Array.from({ length: 4 }, () => waitAgainAndAgain(2))),
    /** Blocks while its async acquisitions are pending. */
    async mixed() {
      let pending = [];
      while (done() < rounds) {
        const way = next();
        if (way === 'block') {
          block();
        } else if (way === 'attempt') {
          attempt();
        } else {
          pending.push(pend());
          // A key that was free is used and released here. Blocking while holding it could be a deadlock.
          await nextTurn();
        }
        if (pending.length === 8) {
          await Promise.all(pending);
          pending = [];
        }
      }
      await Promise.all(pending);
    },
  };
}
