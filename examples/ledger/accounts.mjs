// @ts-check
/**
 * The accounts, in memory that every thread sees: a balance in cents and a receipt word each.
 *
 * Nothing in here locks, and nothing is atomic: `transfer` reads, works, then writes back, as code
 * that handles a row of data does. The caller must hold both accounts, or money gets lost.
 *
 * Every transfer is applied, overdrafts included, and both fields are changed by operations that
 * commute (addition and exclusive or). So the final state does not depend on the order of the
 * transfers, and a replay on a single thread is an exact check.
 */
import { hash } from 'node:crypto';

/** Milliseconds that a printer takes for a statement. */
const PRINTING = 100;

const OPENING_CENTS = 1_000_000;

/** Bytes of memory, or of a file, for each account. */
export const ACCOUNT_BYTES = 12;

/**
 * Every index in this file is an account number, hence in range.
 *
 * @param {Float64Array | Int32Array} array
 * @param {number} account
 */
const at = (array, account) => /** @type {number} */ (array[account]);

export class Accounts {
  /** A double holds whole cents exactly up to 2^53. */
  #cents;
  #receipts;

  /**
   * @param {number} count
   * @param {SharedArrayBuffer} [memory] That of another thread's accounts; without it, new accounts are opened.
   */
  constructor(count, memory) {
    this.count = count;
    this.memory = memory ?? new SharedArrayBuffer(count * ACCOUNT_BYTES);
    this.#cents = new Float64Array(this.memory, 0, count);
    this.#receipts = new Int32Array(this.memory, count * 8, count);
    if (memory === undefined) this.#cents.fill(OPENING_CENTS);
  }

  /** The sum of all balances at any time, since transfers only move money. */
  get expectedTotal() {
    return this.count * OPENING_CENTS;
  }

  total() {
    let sum = 0;
    for (const cents of this.#cents) sum += cents;
    return sum;
  }

  /**
   * @param {number} from
   * @param {number} to
   * @param {number} cents
   * @param {Buffer} record The whole transfer, for the receipt.
   */
  transfer(from, to, cents, record) {
    const fromCents = at(this.#cents, from);
    const toCents = at(this.#cents, to);
    const receipt = receiptOf(record);
    this.#cents[from] = fromCents - cents;
    this.#cents[to] = toCents + cents;
    this.#receipts[from] = at(this.#receipts, from) ^ receipt;
    this.#receipts[to] = at(this.#receipts, to) ^ receipt;
  }

  /**
   * Prints the balance, and blocks the thread until the slow printer has finished.
   *
   * @param {number} account
   */
  print(account) {
    const paper = `${account}: ${at(this.#cents, account)}`;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PRINTING);
    return paper;
  }

  /**
   * @param {Accounts} other Of the same count.
   * @returns {number} How many accounts differ in balance or receipts.
   */
  differencesFrom(other) {
    let differences = 0;
    for (let account = 0; account < this.count; account++) {
      const same =
        at(this.#cents, account) === at(other.#cents, account) &&
        at(this.#receipts, account) === at(other.#receipts, account);
      if (!same) differences++;
    }
    return differences;
  }
}

/**
 * The real work between reading and writing the balances, about a microsecond: the first four
 * bytes of the record's SHA-256.
 *
 * @param {Buffer} record
 */
export function receiptOf(record) {
  return hash('sha256', record, 'buffer').readInt32LE(0);
}
