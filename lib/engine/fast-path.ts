import {
  THREAD_BOUND,
  type AsyncWaiter,
  type LockTable,
  type Outcome,
  type Request,
} from './contract/engine.js';
import { STRIPE_SHIFT, TOKEN_CELL, wordIndex } from './contract/layout.js';
import { HOLDER_MASK, SHARED } from './contract/lock-word.js';
import { EXCLUSIVE_MODE, SHARED_MODE } from './contract/mode.js';

/** From one stripe's word to the next, in bytes. */
const ADDRESS_SHIFT = STRIPE_SHIFT + 2;

/**
 * What a guard refers to: a table, and what of it the fast path works on. Nothing of it can be reached through a guard,
 * or who has one could free what others hold. So the functions are static, and no object leads to the class.
 *
 * Where one of these functions throws, on account of a stack overflow, it has changed nothing (keeps T1).
 */
export class FastPath {
  /** Enumerable, so that structured clone meets it; see {@link THREAD_BOUND}. */
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

  /** To be called before the first of the shared functions. */
  static openShares(this: void, path: FastPath): void {
    if (path.#shares === undefined) path.#shares = path.#table.shares ?? path.#table.openShares();
  }

  static take(this: void, path: FastPath, stripe: number): boolean {
    return exchange(path, stripe, 0, path.#slot) === 0;
  }

  static takeShared(this: void, path: FastPath, stripe: number): boolean {
    const word = path.#words[wordIndex(stripe)]!;
    const shares = path.#shares!;
    let next: number;
    if (word === 0) next = SHARED | 1;
    else if ((word & ~HOLDER_MASK) === SHARED && (word & HOLDER_MASK) < HOLDER_MASK) next = word + 1;
    else return false;
    if (exchange(path, stripe, word, next) !== word) return false;
    shares[stripe]!++;
    return true;
  }

  static giveBack(this: void, path: FastPath, stripe: number): void {
    const slot = path.#slot;
    if (exchange(path, stripe, slot, 0) !== slot) path.#table.release(stripe, EXCLUSIVE_MODE);
  }

  static giveBackShared(this: void, path: FastPath, stripe: number): void {
    const word = path.#words[wordIndex(stripe)]!;
    const shares = path.#shares!;
    const next = word === (SHARED | 1) ? 0 : word - 1;
    // Of several shared holders any but the last may leave without asking who waits.
    const simple = word === (SHARED | 1) || ((word & SHARED) !== 0 && (word & HOLDER_MASK) > 1);
    if (simple && exchange(path, stripe, word, next) === word) shares[stripe]!--;
    else path.#table.release(stripe, SHARED_MODE);
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
      ? Atomics.compareExchange(path.#words, wordIndex(stripe), expected, replacement)
      : compareExchange(path.#firstAddress + (stripe << ADDRESS_SHIFT), expected, replacement);
  }
}

/** As a constant, and so are the others where they are used: V8 calls it at once then. */
const { exchange } = FastPath;

Reflect.deleteProperty(FastPath.prototype, 'constructor');
