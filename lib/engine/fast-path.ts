import { threadBound } from '../common/thread-bound.js';
import type { LockTable } from './contract/engine.js';
import { STRIPE_SHIFT, TOKEN_CELL, wordIndex } from './contract/layout.js';
import { HOLDER_MASK, SHARED } from './contract/lock-word.js';
import { countedMode, EXCLUSIVE_MODE, mostHolds, SHARED_MODE, type Mode } from './contract/mode.js';

const THREAD_BOUND = threadBound('Guard', 'pass lock.handle instead, and acquire there');

/** The bits by which a stripe number is shifted to get its word's offset in bytes. */
const ADDRESS_SHIFT = STRIPE_SHIFT + 2;
/** The word of a stripe with one shared hold and no other flag. */
const ONE_SHARE = SHARED | 1;

/** The error of the last `releaseMany` that did not return 0. */
export let overflowError: unknown;

/**
 * The changes of a stripe's word that need no engine; `lock-word.ts` lists the states, and `mode.ts` the holders that a mode
 * admits. If the word is in any other state, a release calls the engine, and an acquisition reports that it failed.
 *
 * Each guard refers to an instance. Programs could reach its methods through a guard, and release keys that others hold. So
 * the functions are static, and no object leads to the class.
 *
 * A function that throws has changed nothing; only a stack overflow makes it throw (keeps T1).
 */
export class FastPath {
  /** Guards refer to this object, so they cannot be posted to another thread either. */
  readonly threadBound = THREAD_BOUND;
  readonly #table: LockTable;
  readonly #words: Int32Array;
  readonly #compareExchange: LockTable['compareExchange'];
  readonly #firstAddress: number;
  readonly #slot: number;
  #shares: Int32Array | undefined;
  /** The highest word that counts holders without any other flag. */
  readonly #mostShares: number;
  /** The mode with counted holders: shared, or permits. */
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

  /** Takes a free stripe exclusively. */
  static take(this: void, path: FastPath, stripe: number): boolean {
    const compareExchange = path.#compareExchange;
    if (compareExchange === undefined) return exchangeAtomic(path, stripe, 0, path.#slot) === 0;
    return compareExchange(path.#firstAddress + (stripe << ADDRESS_SHIFT), 0, path.#slot) === 0;
  }

  /** Releases a stripe that is held exclusively. */
  static release(this: void, path: FastPath, stripe: number): void {
    const slot = path.#slot;
    const compareExchange = path.#compareExchange;
    const word =
      compareExchange === undefined
        ? exchangeAtomic(path, stripe, slot, 0)
        : compareExchange(path.#firstAddress + (stripe << ADDRESS_SHIFT), slot, 0);
    if (word !== slot) path.#table.release(stripe, EXCLUSIVE_MODE);
  }

  /** Takes a stripe that is free or held shared, or one of its permits (keeps P1 of `native/core/table/table.h`). */
  static takeShared(this: void, path: FastPath, stripe: number): boolean {
    const shares = path.#shares ?? openShares(path);
    const word = path.#words[wordIndex(stripe)]!;
    let next: number;
    if (word === 0) next = ONE_SHARE;
    else if (word >= ONE_SHARE && word < path.#mostShares) next = word + 1;
    else return false;
    if (exchange(path, stripe, word, next) !== word) return false;
    // No function is called between the change and this count.
    shares[stripe]!++;
    return true;
  }

  /** Releases a shared hold, or a permit. */
  static releaseShared(this: void, path: FastPath, stripe: number): void {
    const word = path.#words[wordIndex(stripe)]!;
    const shares = path.#shares ?? openShares(path);
    const counted = path.#counted;
    const next = word === ONE_SHARE ? 0 : word - 1;
    // Without permits, waiters care only about the last shared hold, so the others are released without the engine.
    // With permits, a waiter may need any of them (keeps P2).
    const simple =
      counted.code === SHARED_MODE.code
        ? word === ONE_SHARE || ((word & SHARED) !== 0 && (word & HOLDER_MASK) > 1)
        : word >= ONE_SHARE && word <= path.#mostShares;
    if (simple && exchange(path, stripe, word, next) === word) shares[stripe]!--;
    else path.#table.release(stripe, counted);
  }

  /** {@link take}, in the mode with this code. */
  static takeIn(this: void, path: FastPath, stripe: number, code: number): boolean {
    return code === EXCLUSIVE_MODE.code ? take(path, stripe) : takeShared(path, stripe);
  }

  /** {@link release}, in the mode with this code. */
  static releaseIn(this: void, path: FastPath, stripe: number, code: number): void {
    if (code === EXCLUSIVE_MODE.code) release(path, stripe);
    else releaseShared(path, stripe);
  }

  /** Takes stripes in order, up to the first that is not free, and returns how many. A stack overflow also ends the loop. */
  static takeMany(this: void, path: FastPath, stripes: readonly number[], code: number): number {
    let taken = 0;
    try {
      // Two loops, because a single one would check the mode for each stripe.
      if (code === EXCLUSIVE_MODE.code) while (taken < stripes.length && take(path, stripes[taken]!)) taken++;
      else while (taken < stripes.length && takeShared(path, stripes[taken]!)) taken++;
    } catch {
      // The guard keeps the stripes that were taken, and the engine continues (keeps T1).
    }
    return taken;
  }

  /**
   * Releases the first `count` stripes in reverse order. Returns how many of them, from the front, are still held: 0,
   * unless the stack overflowed. The result is a number because creating an object could overflow the stack again, and
   * the count would be lost.
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

  /** The holds of this thread, by stripe, in the mode with counted holders. */
  static openShares(this: void, path: FastPath): Int32Array {
    return (path.#shares ??= path.#table.shares ?? path.#table.openShares());
  }

  static nextToken(this: void, path: FastPath): bigint {
    return Atomics.add(path.#table.cells, TOKEN_CELL, 1n) + 1n;
  }

  /** Compares and swaps a stripe's word. Returns the previous word. */
  static exchange(this: void, path: FastPath, stripe: number, expected: number, replacement: number): number {
    const compareExchange = path.#compareExchange;
    return compareExchange === undefined
      ? exchangeAtomic(path, stripe, expected, replacement)
      : compareExchange(path.#firstAddress + (stripe << ADDRESS_SHIFT), expected, replacement);
  }

  /** {@link exchange} for a table without `compareExchange`. */
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

/** The functions are constants, here and in the modules that use them, so that V8 calls and inlines them directly. */
const { openShares, take, takeShared, release, releaseShared, exchange, exchangeAtomic } = FastPath;

Reflect.deleteProperty(FastPath.prototype, 'constructor');
