// @ts-check
/** Writes the file of transfers: same seed, same file. */
import { closeSync, openSync, writeSync } from 'node:fs';
import { seededRandom } from './random.mjs';
import { chunks, hotAccount, RECORD_BYTES, writeRecord } from './transfers.mjs';
import { zipfian } from './zipf.mjs';

const LARGEST_TRANSFER_CENTS = 10_000;
const RECORDS_A_WRITE = 65_536;
/** With a hot account: the share of transfers from it. */
const HOT_SHARE = 0.5;

/**
 * @param {string} path
 * @param {{ transfers: number; accounts: number; seed: number; hot?: boolean }} options
 */
export function writeTransfers(path, { transfers, accounts, seed, hot = false }) {
  const random = seededRandom(seed);
  const nextAccount = zipfian(accounts, random);
  const anyAccount = () => Math.floor(random() * accounts);
  const buffer = Buffer.allocUnsafe(RECORDS_A_WRITE * RECORD_BYTES);
  const file = openSync(path, 'w');
  try {
    for (const { first, count } of chunks(transfers, RECORDS_A_WRITE)) {
      for (let i = 0; i < count; i++) {
        const isHot = hot && random() < HOT_SHARE;
        const from = isHot ? hotAccount(accounts) : nextAccount();
        // If it were a popular one, a thread that holds that account and waits for the hot one would make others wait
        // for it.
        const nextOther = isHot ? anyAccount : nextAccount;
        let to = nextOther();
        while (to === from) to = nextOther();
        const cents = 1 + Math.floor(random() * LARGEST_TRANSFER_CENTS);
        writeRecord(buffer, i * RECORD_BYTES, first + i, from, to, cents);
      }
      writeAll(file, buffer.subarray(0, count * RECORD_BYTES));
    }
  } finally {
    closeSync(file);
  }
}

/**
 * One `writeSync` may write less than it was given.
 *
 * @param {number} file
 * @param {Buffer} bytes
 */
function writeAll(file, bytes) {
  for (let done = 0; done < bytes.length;) done += writeSync(file, bytes, done);
}
