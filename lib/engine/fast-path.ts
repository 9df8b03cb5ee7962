import {
  THREAD_BOUND,
  type AsyncWaiter,
  type LockTable,
  type Outcome,
  type Request,
} from './contract/engine.js';
import { STRIPE_SHIFT, TOKEN_CELL, wordIndex } from './contract/layout.js';
import { HOLDER_MASK, SHARED } from './contract/lock-word.js';
import { EXCLUSIVE_MODE, SHARED_MODE, type Mode } from './contract/mode.js';

/** From one stripe's word to the next, in bytes. */
const ADDRESS_SHIFT = STRIPE_SHIFT + 2;

/** Where a stack overflow ended {@link giveBackMany}. */
export interface Cut {
  /** So many stripes, from the front, are still held. */
  readonly left: number;
  readonly error: unknown;
}

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
  /** Enumerable, so that structured clone finds it; see {@link THREAD_BOUND}. */
  readonly threadBound = THREAD_BOUND;
  readonly #table: LockTable;
  readonly #words: Int32Array;
  readonly #compareExchange: LockTable['compareExchange'];
  readonly #firstAddress: number;
  readonly #slot: number;
  #shares: Int32Array | undefined;

  constructor(table: LockTable) {
    this.#table = table;
    this.#words = table.words;
    this.#compareExchange = table.compareExchange;
    this.#firstAddress = table.firstAddress;
    this.#slot = table.slot;
    this.#shares = table.shares;
  }

  /** Must be called before a stripe is taken in a mode whose holders are counted. */
  static openShares(this: void, path: FastPath): void {
    if (path.#shares === undefined) path.#shares = path.#table.shares ?? path.#table.openShares();
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

  /** Takes a stripe that is free or held shared. */
  static takeShared(this: void, path: FastPath, stripe: number): boolean {
    const word = path.#words[wordIndex(stripe)]!;
    const shares = path.#shares!;
    let next: number;
    if (word === 0) next = SHARED | 1;
    else if ((word & ~HOLDER_MASK) === SHARED && (word & HOLDER_MASK) < HOLDER_MASK) next = word + 1;
    else return false;
    if (exchange(path, stripe, word, next) !== word) return false;
    // From the change to the count no function is called.
    shares[stripe]!++;
    return true;
  }

  /** Gives back a stripe that is held shared. */
  static giveBackShared(this: void, path: FastPath, stripe: number): void {
    const word = path.#words[wordIndex(stripe)]!;
    const shares = path.#shares!;
    const next = word === (SHARED | 1) ? 0 : word - 1;
    // Of several holders any but the last may leave without asking who waits.
    const simple = next === 0 || ((word & SHARED) !== 0 && (word & HOLDER_MASK) > 1);
    if (simple && exchange(path, stripe, word, next) === word) shares[stripe]!--;
    else path.#table.release(stripe, SHARED_MODE);
  }

  /** {@link take} in the mode asked for. */
  static takeIn(this: void, path: FastPath, stripe: number, mode: Mode): boolean {
    return mode.counted ? takeShared(path, stripe) : take(path, stripe);
  }

  /** {@link giveBack} in the mode asked for. */
  static giveBackIn(this: void, path: FastPath, stripe: number, mode: Mode): void {
    if (mode.counted) giveBackShared(path, stripe);
    else giveBack(path, stripe);
  }

  /**
   * Takes the stripes in their order up to the first that is not free. Returns how many. A stack overflow ends it, too:
   * the engine is to go on in either case.
   */
  static takeMany(this: void, path: FastPath, stripes: readonly number[], mode: Mode): number {
    const count = stripes.length;
    let taken = 0;
    try {
      if (mode.counted) while (taken < count && takeShared(path, stripes[taken]!)) taken++;
      else while (taken < count && take(path, stripes[taken]!)) taken++;
    } catch {
      // What was taken stays with the caller (keeps T1).
    }
    return taken;
  }

  /** Gives back the first `count` stripes in reverse order: all of them, unless it returns a {@link Cut}. */
  static giveBackMany(
    this: void,
    path: FastPath,
    stripes: readonly number[],
    count: number,
    mode: Mode,
  ): Cut | undefined {
    let left = count;
    try {
      if (mode.counted) for (; left > 0; left--) giveBackShared(path, stripes[left - 1]!);
      else for (; left > 0; left--) giveBack(path, stripes[left - 1]!);
    } catch (error) {
      return { left, error };
    }
    return undefined;
  }

  /** Lets the engine go on, for a waiter or, without one, in a sync wait. */
  static acquire(
    this: void,
    path: FastPath,
    request: Request,
    waiter: AsyncWaiter | undefined,
  ): Outcome | undefined {
    const table = path.#table;
    return waiter === undefined ? table.acquireSync(request) : table.acquireAsync(request, waiter);
  }

  static nextToken(this: void, path: FastPath): bigint {
    return Atomics.add(path.#table.cells, TOKEN_CELL, 1n) + 1n;
  }

  /** Of a stripe's word. Returns what was there. */
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
const { take, takeShared, giveBack, giveBackShared, exchange, exchangeAtomic } = FastPath;

Reflect.deleteProperty(FastPath.prototype, 'constructor');
