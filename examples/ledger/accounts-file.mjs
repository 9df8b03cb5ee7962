// @ts-check
/**
 * The accounts in a file, for processes, which share no memory: the same bytes as in memory.
 *
 * Nothing in here locks: `transfer` reads, works, then writes back. The caller must hold both accounts.
 */
import { closeSync, openSync, readSync, writeFileSync, writeSync } from 'node:fs';
import { ACCOUNT_BYTES, Accounts, receiptOf } from './accounts.mjs';

export class AccountsFile {
  #file;
  #balance = new Float64Array(1);
  #receipt = new Int32Array(1);

  /**
   * @param {string} path
   * @param {number} count
   */
  constructor(path, count) {
    this.count = count;
    this.#file = openSync(path, 'r+');
  }

  /**
   * Opens new accounts.
   *
   * @param {string} path
   * @param {number} count
   */
  static create(path, count) {
    writeFileSync(path, new Uint8Array(new Accounts(count).memory));
    return new AccountsFile(path, count);
  }

  /** All of them, as they are now. */
  load() {
    const memory = new SharedArrayBuffer(this.count * ACCOUNT_BYTES);
    readSync(this.#file, new Uint8Array(memory), 0, memory.byteLength, 0);
    return new Accounts(this.count, memory);
  }

  /**
   * @param {number} from
   * @param {number} to
   * @param {number} cents
   * @param {Buffer} record The whole transfer, for the receipt.
   */
  transfer(from, to, cents, record) {
    const [fromCents, toCents] = [this.#cents(from), this.#cents(to)];
    const receipt = receiptOf(record);
    this.#setCents(from, fromCents - cents);
    this.#setCents(to, toCents + cents);
    this.#addReceipt(from, receipt);
    this.#addReceipt(to, receipt);
  }

  close() {
    closeSync(this.#file);
  }

  /** @param {number} account */
  #cents(account) {
    readSync(this.#file, this.#balance, 0, 8, account * 8);
    return /** @type {number} */ (this.#balance[0]);
  }

  /**
   * @param {number} account
   * @param {number} cents
   */
  #setCents(account, cents) {
    this.#balance[0] = cents;
    writeSync(this.#file, this.#balance, 0, 8, account * 8);
  }

  /**
   * @param {number} account
   * @param {number} receipt
   */
  #addReceipt(account, receipt) {
    const at = this.count * 8 + account * 4;
    readSync(this.#file, this.#receipt, 0, 4, at);
    this.#receipt[0] = /** @type {number} */ (this.#receipt[0]) ^ receipt;
    writeSync(this.#file, this.#receipt, 0, 4, at);
  }
}
