// @ts-check
/** A thread of the pool: applies one chunk of the file at a time, each transfer under its two accounts' lock. */
import { workerData } from 'piscina';
import { StripedLock } from 'stripelock';
import { Accounts } from './accounts.mjs';
import { eachTransfer, hotAccount, readChunk } from './transfers.mjs';

/**
 * @typedef {object} WorkerData
 * @property {string} path
 * @property {number} accounts
 * @property {SharedArrayBuffer} memory
 * @property {import('stripelock').StripedLockHandle | undefined} handle Absent: apply without a lock.
 * @property {boolean} hot Print a statement of the hot account after each chunk.
 */

const { path, accounts: count, memory, handle, hot } = /** @type {WorkerData} */ (workerData);
const accounts = new Accounts(count, memory);
const lock = handle && StripedLock.from(handle);

/** Holds the account for much longer than it needs: this should copy the balance, release, and print then. */
function printStatement() {
  const account = hotAccount(count);
  lock?.withLockSync(account, () => accounts.print(account));
}

/**
 * @param {{ first: number; count: number }} chunk
 * @returns {number} How many transfers were applied.
 */
export default function applyChunk({ first, count: transfers }) {
  eachTransfer(readChunk(path, first, transfers), (from, to, cents, record) => {
    const guard = lock?.acquireSync([from, to]);
    try {
      accounts.transfer(from, to, cents, record);
    } finally {
      guard?.release();
    }
  });
  if (hot) printStatement();
  return transfers;
}
