// @ts-check
/**
 * The audit: while every account is held in shared mode, no transfer is half done, so the balances
 * must add up to the cent. It waits asynchronously, so the main thread keeps drawing its progress
 * bar.
 */
import { setTimeout as sleep } from 'node:timers/promises';

const PAUSE_MS = 100;

/**
 * @typedef {object} Audits
 * @property {number} passed
 * @property {number} failed
 * @property {number} longestWait Milliseconds from asking for all accounts to holding them.
 */

/** @returns {Audits} */
export const noAudits = () => ({ passed: 0, failed: 0, longestWait: 0 });

/**
 * The audited accounts, and a lock of which `keys` cover all of them.
 *
 * @typedef {object} Books
 * @property {() => import('./accounts.mjs').Accounts} look
 * @property {{ acquire(keys: number[], options: { mode: 'shared' }): Promise<{ release(): void }> } | undefined} lock
 *   Absent: look at the balances as they are.
 * @property {number} keys They are 0 … keys - 1.
 */

/**
 * Audits again and again, with a pause in between, and one last time after `work` has settled.
 *
 * @param {Books} books
 * @param {Promise<unknown>} work
 * @param {Audits} audits Counts each audit as it ends.
 */
export async function auditDuring(books, work, audits) {
  const everything = Array.from({ length: books.keys }, (_, key) => key);
  let running = true;
  const stop = () => {
    running = false;
  };
  const stopped = work.then(stop, stop);
  for (let last = false; !last;) {
    await Promise.race([stopped, sleep(PAUSE_MS)]);
    last = !running;
    await audit(books, everything, audits);
  }
}

/**
 * @param {Books} books
 * @param {number[]} everything
 * @param {Audits} audits
 */
async function audit({ look, lock }, everything, audits) {
  const asked = performance.now();
  const guard = await lock?.acquire(everything, { mode: 'shared' });
  try {
    audits.longestWait = Math.max(audits.longestWait, performance.now() - asked);
    const accounts = look();
    if (accounts.total() === accounts.expectedTotal) audits.passed++;
    else audits.failed++;
  } finally {
    guard?.release();
  }
}
