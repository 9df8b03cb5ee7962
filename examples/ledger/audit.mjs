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
 * Audits again and again, with a pause in between, and one last time after `work` has settled.
 *
 * @param {import('./accounts.mjs').Accounts} accounts
 * @param {import('stripelock').StripedLock | undefined} lock Absent: look at the balances as they are.
 * @param {Promise<unknown>} work
 * @param {Audits} audits Counts each audit as it ends.
 */
export async function auditDuring(accounts, lock, work, audits) {
  const everyAccount = Array.from({ length: accounts.count }, (_, account) => account);
  let running = true;
  const stop = () => {
    running = false;
  };
  const stopped = work.then(stop, stop);
  for (let last = false; !last;) {
    await Promise.race([stopped, sleep(PAUSE_MS)]);
    last = !running;
    await audit(accounts, everyAccount, lock, audits);
  }
}

/**
 * @param {import('./accounts.mjs').Accounts} accounts
 * @param {readonly number[]} everyAccount
 * @param {import('stripelock').StripedLock | undefined} lock
 * @param {Audits} audits
 */
async function audit(accounts, everyAccount, lock, audits) {
  const asked = performance.now();
  const guard = await lock?.acquire(everyAccount, { mode: 'shared' });
  try {
    audits.longestWait = Math.max(audits.longestWait, performance.now() - asked);
    if (accounts.total() === accounts.expectedTotal) audits.passed++;
    else audits.failed++;
  } finally {
    guard?.release();
  }
}
