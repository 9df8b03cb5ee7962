import { threadBound } from '../common/thread-bound.js';
import type { LockTable } from './contract/engine.js';
import { STRIPE_SHIFT, TOKEN_CELL, wordIndex } from './contract/layout.js';
import { HOLDER_MASK, SHARED } from './contract/lock-word.js';
import { countedMode, EXCLUSIVE_MODE, mostHolds, SHARED_MODE, type Mode } from './contract/mode.js';

const THREAD_BOUND = threadBound('Guard', 'pass lock.handle instead, and acquire there');

/** `stripe << ADDRESS_SHIFT` is the offset of a stripe's word from the first stripe's word, in bytes. */
const ADDRESS_SHIFT = STRIPE_SHIFT + 2;
/** The word of a stripe with a single shared hold or permit in use, and no flag except SHARED. */
const ONE_SHARE = SHARED | 1;

/** The stack overflow error that ended the last incomplete call of {@link FastPath.releaseMany}. */
export let overflowError: unknown;

/**
 * Acquires and releases stripes by compare-and-swap on their words, without a call of the engine.
 * `lock-word.ts` lists the states of a word. `mode.ts` defines when a stripe admits another holder. If only
 * the engine can handle the state of a word, a release calls the engine. An acquisition returns false
 * instead, and its caller calls the engine.
 *
 * A program can reach an instance of this class through a guard. If the instance had methods, the program
 * could release keys of other holders. So the functions are static, and the prototype's `constructor` is
 * deleted.
 *
 * If a function throws, it has changed nothing. Only a stack overflow makes a function throw (preserves T1 of
 * `contract/engine.ts`).
 */
export class FastPath {
  /**
   * Makes structured clone refuse this object. Guards refer to this object, so structured clone also refuses
   * guards.
   */
  readonly threadBound = THREAD_BOUND;
  readonly #table: LockTable;
  readonly #words: Int32Array;
  readonly #compareExchange: LockTable['compareExchange'];
  readonly #firstAddress: number;
  readonly #slot: number;
  #shares: Int32Array | undefined;
  /** The word with the maximum count of holders and no flag except SHARED. */
  readonly #mostShares: number;
  /** The table's mode with counted holders: shared or permit. */
  readonly #counted: Mode;

  constructor(table: LockTable) {
    this.#table = table;
    this.#words = table.words;
    this.#compareExchange = table.compareExchange;
    this.#firstAddress = table.firstAddress;
    this.#slot = table.slot;
    this.#shares = table.shares;
    this.#mostShares = SHARED | mostHolds(table.limit);
    this.#counted = countedMode(table.limit);
  }

  /** Takes the stripe exclusively if its word is 0 (free). Otherwise returns false. */
  static take(this: void, path: FastPath, stripe: number): boolean {
    const compareExchange = path.#compareExchange;
    if (compareExchange === undefined) return exchangeAtomic(path, stripe, 0, path.#slot) === 0;
    return compareExchange(path.#firstAddress + (stripe << ADDRESS_SHIFT), 0, path.#slot) === 0;
  }

  /** Releases a stripe that this thread holds exclusively. */
  static release(this: void, path: FastPath, stripe: number): void {
    const slot = path.#slot;
    const compareExchange = path.#compareExchange;
    const word =
      compareExchange === undefined
        ? exchangeAtomic(path, stripe, slot, 0)
        : compareExchange(path.#firstAddress + (stripe << ADDRESS_SHIFT), slot, 0);
    if (word !== slot) path.#table.release(stripe, EXCLUSIVE_MODE);
  }

  /**
   * Adds a shared hold of the stripe, or takes a permit, if the word allows another holder (preserves P1 of
   * `native/core/table/table.h`). Otherwise returns false.
   */
  static takeShared(this: void, path: FastPath, stripe: number): boolean {
    const shares = path.#shares ?? openShares(path);
    const word = path.#words[wordIndex(stripe)]!;
    let next: number;
    if (word === 0) next = ONE_SHARE;
    else if (word >= ONE_SHARE && word < path.#mostShares) next = word + 1;
    else return false;
    if (exchange(path, stripe, word, next) !== word) return false;
    // No function is called between the change of the word and this count (preserves T1).
    shares[stripe]!++;
    return true;
  }

  /** Releases a shared hold, or a permit. */
  static releaseShared(this: void, path: FastPath, stripe: number): void {
    const word = path.#words[wordIndex(stripe)]!;
    const shares = path.#shares ?? openShares(path);
    const counted = path.#counted;
    const next = word === ONE_SHARE ? 0 : word - 1;
    // Without permits, only the release of the last shared hold can unblock a waiter, so other releases do
    // not need the engine. With permits, any release can unblock a waiter (preserves P2 of `table.h`).
    const simple =
      counted.code === SHARED_MODE.code
        ? word === ONE_SHARE || ((word & SHARED) !== 0 && (word & HOLDER_MASK) > 1)
        : word >= ONE_SHARE && word <= path.#mostShares;
    if (simple && exchange(path, stripe, word, next) === word) shares[stripe]!--;
    else path.#table.release(stripe, counted);
  }

  /** Calls {@link take} or {@link takeShared}, depending on the code of the mode. */
  static takeIn(this: void, path: FastPath, stripe: number, code: number): boolean {
    return code === EXCLUSIVE_MODE.code ? take(path, stripe) : takeShared(path, stripe);
  }

  /** Calls {@link release} or {@link releaseShared}, depending on the code of the mode. */
  static releaseIn(this: void, path: FastPath, stripe: number, code: number): void {
    if (code === EXCLUSIVE_MODE.code) release(path, stripe);
    else releaseShared(path, stripe);
  }

  /**
   * Takes the stripes in list order, until a stripe is not available or the stack overflows. Returns the
   * number of stripes taken.
   */
  static takeMany(this: void, path: FastPath, stripes: readonly number[], code: number): number {
    let taken = 0;
    try {
      // There are two loops, because a single loop would check the mode for each stripe.
      if (code === EXCLUSIVE_MODE.code) while (taken < stripes.length && take(path, stripes[taken]!)) taken++;
      else while (taken < stripes.length && takeShared(path, stripes[taken]!)) taken++;
    } catch {
      // The guard keeps the stripes taken so far, and the engine takes the others (preserves T1).
    }
    return taken;
  }

  /**
   * Releases the first `count` stripes of the list in reverse order. Returns the number of stripes at the
   * front of the list that are still held: 0, unless the stack overflowed. After an overflow,
   * {@link overflowError} is the error. The function does not return an object, because creating one could
   * overflow the stack again and lose the number.
   */
  static releaseMany(
    this: void,
    path: FastPath,
    stripes: readonly number[],
    count: number,
    code: number,
  ): number {
    let left = count;
    try {
      if (code === EXCLUSIVE_MODE.code) for (; left > 0; left--) release(path, stripes[left - 1]!);
      else for (; left > 0; left--) releaseShared(path, stripes[left - 1]!);
    } catch (error) {
      overflowError = error;
    }
    return left;
  }

  /**
   * Returns the array that counts this thread's shared holds or permits by stripe. Creates the array if
   * necessary.
   */
  static openShares(this: void, path: FastPath): Int32Array {
    return (path.#shares ??= path.#table.shares ?? path.#table.openShares());
  }

  static nextToken(this: void, path: FastPath): bigint {
    return Atomics.add(path.#table.cells, TOKEN_CELL, 1n) + 1n;
  }

  /** Compares and swaps the word of a stripe. Returns the word's previous value. */
  static exchange(this: void, path: FastPath, stripe: number, expected: number, replacement: number): number {
    const compareExchange = path.#compareExchange;
    return compareExchange === undefined
      ? exchangeAtomic(path, stripe, expected, replacement)
      : compareExchange(path.#firstAddress + (stripe << ADDRESS_SHIFT), expected, replacement);
  }

  /** Does the same as {@link exchange}, for a table without `compareExchange`. */
  static exchangeAtomic(
    this: void,
    path: FastPath,
    stripe: number,
    expected: number,
    replacement: number,
  ): number {
    return Atomics.compareExchange(path.#words, wordIndex(stripe), expected, replacement);
  }
}

/**
 * The functions are constants, here and in the modules that use them, so that V8 can call them directly and
 * inline them.
 */
const { openShares, take, takeShared, release, releaseShared, exchange, exchangeAtomic } = FastPath;

Reflect.deleteProperty(FastPath.prototype, 'constructor');
