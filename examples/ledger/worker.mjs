// @ts-check
/** A thread of the pool: applies one chunk of the file at a time, each transfer under its two accounts' lock. */
import { workerData } from 'piscina';
import { StripedLock } from 'stripelock';
import { Accounts } from './accounts.mjs';
import { eachTransfer, readChunk } from './transfers.mjs';

/**
 * @typedef {object} WorkerData
 * @property {string} path
 * @property {number} accounts
 * @property {SharedArrayBuffer} memory
 * @property {import('stripelock').StripedLockHandle | undefined} handle Absent: apply without a lock.
 */

const { path, accounts: count, memory, handle } = /** @type {WorkerData} */ (workerData);
const accounts = new Accounts(count, memory);
const lock = handle && StripedLock.from(handle);

/**
 * @param {{ first: number; count: number }} chunk
 * @returns {number} How many transfers were applied.
 */
export default function applyChunk({ first, count }) {
  eachTransfer(readChunk(path, first, count), (from, to, cents, record) => {
    const guard = lock?.acquireSync([from, to]);
    try {
      accounts.transfer(from, to, cents, record);
    } finally {
      guard?.release();
    }
  });
  return count;
}
