import { threadBound } from '../common/thread-bound.js';
import { type AsyncWaiter, type LockTable, type Outcome, type Request } from './contract/engine.js';
import { STRIPE_SHIFT, TOKEN_CELL, wordIndex } from './contract/layout.js';
import { HOLDER_MASK, SHARED } from './contract/lock-word.js';
import { countedMode, EXCLUSIVE_MODE, mostHolds, SHARED_MODE, type Mode } from './contract/mode.js';

const THREAD_BOUND = threadBound('Guard', 'pass lock.handle instead, and acquire there');

/** From one stripe's word to the next, in bytes. */
const ADDRESS_SHIFT = STRIPE_SHIFT + 2;
/** The first of the words that are held shared and have no other flag. */
const ONE_SHARE = SHARED | 1;

/** What ended the last of the functions that give several stripes back and returned that some are left. */
export let cutBy: unknown;

/**
 * What a guard refers to: a table, and what of it the fast path works on. The transitions of a stripe's word that need no
 * engine are the functions below; see `lock-word.ts` for the states, and `mode.ts` for what a mode admits.
 *
 * Nothing of it can be reached through a guard, or whoever has a guard could free what others hold. So the functions are
 * static, and no object leads to the class.
 *
 * A stack overflow is the only reason for which one of these functions throws. It has then changed nothing (keeps T1).
 */
export class FastPath {
  /** Guards refer to this object, and so are refused, too. */
  readonly threadBound = THREAD_BOUND;
  readonly #table: LockTable;
  readonly #words: Int32Array;
  readonly #compareExchange: LockTable['compareExchange'];
  readonly #firstAddress: number;
  readonly #slot: number;
  #shares: Int32Array | undefined;
  /** The last of the words from {@link ONE_SHARE} on. */
  readonly #mostShares: number;
  /** The mode whose holders are counted: shared, or that of permits. */
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

  /** Gives back a stripe that is held exclusively. */
  static giveBack(this: void, path: FastPath, stripe: number): void {
    const slot = path.#slot;
    const compareExchange = path.#compareExchange;
    const word =
      compareExchange === undefined
        ? exchangeAtomic(path, stripe, slot, 0)
        : compareExchange(path.#firstAddress + (stripe << ADDRESS_SHIFT), slot, 0);
    if (word !== slot) path.#table.release(stripe, EXCLUSIVE_MODE);
  }

  /** Takes a stripe that is free or held shared, or one of its permits (keeps P1 of `native/core/table.h`). */
  static takeShared(this: void, path: FastPath, stripe: number): boolean {
    const shares = path.#shares ?? openShares(path);
    const word = path.#words[wordIndex(stripe)]!;
    let next: number;
    if (word === 0) next = ONE_SHARE;
    else if (word >= ONE_SHARE && word < path.#mostShares) next = word + 1;
    else return false;
    if (exchange(path, stripe, word, next) !== word) return false;
    // From the change to the count no function is called.
    shares[stripe]!++;
    return true;
  }

  /** Gives back a stripe that is held shared, or a permit. */
  static giveBackShared(this: void, path: FastPath, stripe: number): void {
    const word = path.#words[wordIndex(stripe)]!;
    const shares = path.#shares!;
    const counted = path.#counted;
    const next = word === ONE_SHARE ? 0 : word - 1;
    // Any of several holders but the last may leave without asking who waits. Each permit may be waited for (keeps P2).
    const simple =
      counted.code === SHARED_MODE.code
        ? word === ONE_SHARE || ((word & SHARED) !== 0 && (word & HOLDER_MASK) > 1)
        : word >= ONE_SHARE && word <= path.#mostShares;
    if (simple && exchange(path, stripe, word, next) === word) shares[stripe]!--;
    else path.#table.release(stripe, counted);
  }

  /** {@link take} in the mode whose code this is. */
  static takeIn(this: void, path: FastPath, stripe: number, code: number): boolean {
    return code === EXCLUSIVE_MODE.code ? take(path, stripe) : takeShared(path, stripe);
  }

  /** {@link giveBack} in the mode whose code this is. */
  static giveBackIn(this: void, path: FastPath, stripe: number, code: number): void {
    if (code === EXCLUSIVE_MODE.code) giveBack(path, stripe);
    else giveBackShared(path, stripe);
  }

  /**
   * Takes the stripes in their order up to the first that is not free. Returns how many. A stack overflow ends it, too:
   * the engine continues in either case.
   */
  static takeMany(this: void, path: FastPath, stripes: readonly number[], code: number): number {
    let taken = 0;
    try {
      // One loop for both would ask for the mode of each.
      if (code === EXCLUSIVE_MODE.code) while (taken < stripes.length && take(path, stripes[taken]!)) taken++;
      else while (taken < stripes.length && takeShared(path, stripes[taken]!)) taken++;
    } catch {
      // What was taken stays with the caller (keeps T1).
    }
    return taken;
  }

  /**
   * Gives back the first `count` stripes in reverse order. Returns how many of them, from the front, are still held: 0,
   * unless the stack overflowed. (A number: to make an object can overflow it once more, and nobody would know what is
   * held.)
   */
  static giveBackMany(
    this: void,
    path: FastPath,
    stripes: readonly number[],
    count: number,
    code: number,
  ): number {
    let left = count;
    try {
      if (code === EXCLUSIVE_MODE.code) for (; left > 0; left--) giveBack(path, stripes[left - 1]!);
      else for (; left > 0; left--) giveBackShared(path, stripes[left - 1]!);
    } catch (error) {
      cutBy = error;
    }
    return left;
  }

  /** Lets the engine continue, for a waiter or, without one, in a sync wait. */
  static acquire(
    this: void,
    path: FastPath,
    request: Request,
    waiter: AsyncWaiter | undefined,
  ): Outcome | undefined {
    const table = path.#table;
    // The overflow that kept the fast path from it was none of the engine's.
    if (request.mode.counted) openShares(path);
    return waiter === undefined ? table.acquireSync(request) : table.acquireAsync(request, waiter);
  }

  /** Must be called before a stripe is taken in a mode whose holders are counted. */
  static openShares(this: void, path: FastPath): Int32Array {
    return (path.#shares ??= path.#table.shares ?? path.#table.openShares());
  }

  static nextToken(this: void, path: FastPath): bigint {
    return Atomics.add(path.#table.cells, TOKEN_CELL, 1n) + 1n;
  }

  /** Compares and swaps a stripe's word. Returns what was there. */
  static exchange(this: void, path: FastPath, stripe: number, expected: number, replacement: number): number {
    const compareExchange = path.#compareExchange;
    return compareExchange === undefined
      ? exchangeAtomic(path, stripe, expected, replacement)
      : compareExchange(path.#firstAddress + (stripe << ADDRESS_SHIFT), expected, replacement);
  }

  /** The same where the table has no `compareExchange` of its own. */
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

/** Constants, as whoever uses the others has them, too: V8 then calls and inlines them directly. */
const { openShares, take, takeShared, giveBack, giveBackShared, exchange, exchangeAtomic } = FastPath;

Reflect.deleteProperty(FastPath.prototype, 'constructor');
