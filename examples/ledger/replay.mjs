// @ts-check
/** The expected final accounts: the same file applied by one thread, which needs no lock. */
import { Accounts } from './accounts.mjs';
import { chunks, eachTransfer, readChunk } from './transfers.mjs';

const TRANSFERS_A_READ = 65_536;

/**
 * @param {string} path
 * @param {{ transfers: number; accounts: number }} options
 */
export function replay(path, options) {
  const accounts = new Accounts(options.accounts);
  for (const { first, count } of chunks(options.transfers, TRANSFERS_A_READ)) {
    eachTransfer(readChunk(path, first, count), (from, to, cents, record) => {
      accounts.transfer(from, to, cents, record);
    });
  }
  return accounts;
}
