import { inspect, type InspectOptions } from 'node:util';
import { copyOfBytes, isBytes } from './bytes.js';
import type { LockTable } from './engine/engine.js';
import { STRIPE_SHIFT, TOKEN_CELL, wordIndex } from './engine/layout.js';
import { HOLDER_MASK, SHARED } from './engine/lock-word.js';
import { LockError } from './errors.js';
import type { KeySet } from './key-set.js';
import { traceReleased } from './trace.js';
import type { LockKey, LockMode } from './types.js';

/** A guard's state: flags, and above them the only stripe, or how many of many are taken. */
const SHARED_MODE = 1;
const HELD = 2;
const ABANDONED = 4;
const TRACED = 8;
/** The keys are a {@link KeySet}. */
const MANY = 16;
const NUMBER_SHIFT = 5;
const FLAGS = (1 << NUMBER_SHIFT) - 1;
/** From one stripe's word to the next, in bytes. */
const ADDRESS_SHIFT = STRIPE_SHIFT + 2;
/** All but these is left to functions of their own: V8 inlines no more than so much, and so the rest stays short. */
const NOT_PLAIN = SHARED_MODE | HELD | TRACED | MANY;

/** A guard that holds nothing yet. Made before the first stripe is taken, so that nothing can fail after it. */
export let createGuard: <K extends LockKey, M extends LockMode>(
  table: LockTable,
  key: K,
  stripe: number,
  shared: boolean,
) => Guard<K, M>;

/** The same for any number of keys. */
export let createGuardOfSet: <K extends LockKey, M extends LockMode>(
  table: LockTable,
  set: KeySet<K>,
  shared: boolean,
) => Guard<K, M>;

/**
 * The fast path: one compare-and-swap per stripe. False at the first that is not free; those before it stay
 * with the guard, to be passed on by {@link handOver} or given back by `release`.
 */
export let tryTake: (guard: Guard) => boolean;

/** The stripes of a guard, ascending, for the engine to go on with. Not to be changed. */
export let stripesOf: (guard: Guard) => readonly number[];

/**
 * The keys as they are now, if they may be others later: bytes can be written, and their memory be detached. Else
 * undefined.
 */
export let copyOfKeys: (guard: Guard) => readonly LockKey[] | undefined;

/** How many stripes, from the front, the fast path took. From here on the engine answers for them. */
export let handOver: (guard: Guard) => number;

/** From now on its release is to be told to the trace. */
export let markTraced: (guard: Guard) => void;

/** Records that the engine took everything. */
export let grant: (guard: Guard, abandoned: boolean) => void;

/** Gives everything back that the engine took, whether that was recorded or not: nobody will have the guard. */
export let giveUp: (guard: Guard) => void;

const SETTLED = Promise.resolve();

/** Those that were asked for: most never are. */
const tokens = new WeakMap<object, bigint>();

/**
 * Holds its stripes until released. No key: holds nothing, and is valid.
 * Typed by its keys and mode, so that a function can ask for proof: `write(row, guard: Guard<string, 'exclusive'>)`.
 *
 * Belongs to the thread that acquired it; posting it to another one throws a DataCloneError.
 */
export class Guard<K extends LockKey = LockKey, M extends LockMode = LockMode> implements Disposable {
  /**
   * Own, enumerable and with something in it that structured clone refuses (see {@link LockTable.threadBound}):
   * a copy of a guard in another thread would hold nothing. The rest is private, and as few fields as can be:
   * writing them is a good part of what an acquisition costs, as the compare-and-swap waits for it.
   */
  protected readonly table: LockTable;
  readonly #key: K | KeySet<K>;
  #state: number;

  private constructor(table: LockTable, key: K | KeySet<K>, state: number) {
    this.table = table;
    this.#key = key;
    this.#state = state;
  }

  /** The keys as they were passed, duplicates included. */
  get keys(): readonly K[] {
    return (this.#state & MANY) !== 0 ? (this.#key as KeySet<K>).keys.slice() : [this.#key as K];
  }

  /** Ascending, no duplicates. Taken in this order, released in reverse. */
  get stripes(): readonly number[] {
    const state = this.#state;
    return (state & MANY) !== 0 ? (this.#key as KeySet<K>).stripes.slice() : [state >> NUMBER_SHIFT];
  }

  get mode(): M {
    return ((this.#state & SHARED_MODE) !== 0 ? 'shared' : 'exclusive') as M;
  }

  get held(): boolean {
    return (this.#state & HELD) !== 0;
  }

  /**
   * True when an earlier holder's thread ended without releasing: what the lock protects may be half-written.
   * Told to shared holders and to the first exclusive one.
   */
  get abandoned(): boolean {
    return (this.#state & ABANDONED) !== 0;
  }

  /**
   * Fencing token: greater than that of every earlier holder of any of these stripes. Starts at the wall
   * clock's nanoseconds when the lock was made. Assigned at first read, which must happen while held: throws
   * a LockError with code ERR_LOCK_NOT_HELD otherwise. Once read, it stays readable.
   */
  get token(): bigint {
    let token = tokens.get(this);
    if (token === undefined) {
      if (!this.held) {
        throw new LockError('ERR_LOCK_NOT_HELD', 'a token must be read first while the guard is held');
      }
      token = Atomics.add(this.table.cells, TOKEN_CELL, 1n) + 1n;
      tokens.set(this, token);
    }
    return token;
  }

  /** Idempotent. Does nothing to stripes that somebody else has acquired since. */
  release(): void {
    const state = this.#state;
    if ((state & NOT_PLAIN) === HELD) {
      // The state changes after the stripe, here and below, so that an exception on the way (a stack overflow) leaves
      // a guard that can still be released; nothing in between runs code that could release it again.
      giveBack(this.table, state >> NUMBER_SHIFT);
      this.#state = state ^ HELD;
    } else if ((state & HELD) !== 0) {
      this.#releaseSlow();
    }
  }

  #releaseSlow(): void {
    const { table } = this;
    if ((this.#state & TRACED) !== 0) traceReleased(this);
    this.#state &= ~TRACED;
    const state = this.#state;
    if ((state & MANY) !== 0) this.#releaseMany(table, (this.#key as KeySet<K>).stripes);
    else if ((state & SHARED_MODE) !== 0) giveBackShared(table, state >> NUMBER_SHIFT);
    else giveBack(table, state >> NUMBER_SHIFT);
    this.#state &= ~HELD;
  }

  #releaseMany(table: LockTable, stripes: readonly number[]): void {
    const { slot } = table;
    const flags = this.#state & FLAGS;
    const shared = (flags & SHARED_MODE) !== 0;
    for (let left = this.#state >> NUMBER_SHIFT; left > 0; left--) {
      const stripe = stripes[left - 1]!;
      if (!shared && exchange(table, stripe, slot, 0) === slot) continue;
      // Before the only calls that could throw.
      this.#state = flags | (left << NUMBER_SHIFT);
      if (shared) giveBackShared(table, stripe);
      else table.release(stripe, false);
    }
    this.#state = flags;
  }

  [Symbol.dispose](): void {
    this.release();
  }

  /** What `console.log` shows. */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { keys, stripes, mode, held, abandoned } = this;
    return `Guard ${inspect({ keys, stripes, mode, held, abandoned }, options)}`;
  }

  /** {@link tryTake} for what is shared or of several keys. */
  #tryTakeSlow(): boolean {
    const { table } = this;
    const state = this.#state;
    const shared = (state & SHARED_MODE) !== 0;
    if ((state & MANY) === 0) {
      if (!takeShared(table, state >> NUMBER_SHIFT)) return false;
      this.#state = state | HELD;
      return true;
    }
    const { stripes } = this.#key as KeySet<K>;
    const { slot } = table;
    const count = stripes.length;
    let taken = 0;
    try {
      if (shared) while (taken < count && takeShared(table, stripes[taken]!)) taken++;
      else while (taken < count && exchange(table, stripes[taken]!, 0, slot) === 0) taken++;
    } catch (error) {
      // The stack ends here. Nobody gets this guard, so it gives back what it has; where that fails, too, it does so
      // where the stack begins. To arrange for it takes no more of the stack, as no function in JavaScript is called.
      this.#state = state | (taken << NUMBER_SHIFT) | HELD;
      try {
        this.release();
      } catch {
        void SETTLED.then(() => this.release());
      }
      throw error;
    }
    this.#state = state | (taken << NUMBER_SHIFT) | (taken === count ? HELD : 0);
    return taken === count;
  }

  static {
    createGuard = (table, key, stripe, shared) =>
      new Guard(table, key, (stripe << NUMBER_SHIFT) | (shared ? SHARED_MODE : 0));

    createGuardOfSet = (table, set, shared) => new Guard(table, set, shared ? MANY | SHARED_MODE : MANY);

    tryTake = (guard) => {
      const state = guard.#state;
      if ((state & NOT_PLAIN) !== 0) return guard.#tryTakeSlow();
      if (!take(guard.table, state >> NUMBER_SHIFT)) return false;
      guard.#state = state | HELD;
      return true;
    };

    stripesOf = (guard) => {
      const state = guard.#state;
      return (state & MANY) !== 0 ? (guard.#key as KeySet).stripes : [state >> NUMBER_SHIFT];
    };

    copyOfKeys = (guard) => {
      const many = (guard.#state & MANY) !== 0;
      if (!many) return isBytes(guard.#key) ? [copyOfBytes(guard.#key)] : undefined;
      const { keys } = guard.#key as KeySet;
      return keys.some(isBytes) ? keys.map((key) => (isBytes(key) ? copyOfBytes(key) : key)) : undefined;
    };

    handOver = (guard) => {
      const state = guard.#state;
      if ((state & MANY) === 0) return 0;
      guard.#state = state & FLAGS;
      return state >> NUMBER_SHIFT;
    };

    markTraced = (guard) => {
      guard.#state |= TRACED;
    };

    grant = (guard, abandoned) => {
      const many = (guard.#state & MANY) !== 0;
      const taken = many ? (guard.#key as KeySet).stripes.length << NUMBER_SHIFT : 0;
      guard.#state |= HELD | (abandoned ? ABANDONED : 0) | taken;
    };

    giveUp = (guard) => {
      if ((guard.#state & HELD) === 0) grant(guard, false);
      guard.release();
    };
  }
}

/** Of a stripe's word. Returns what was there. */
function exchange(table: LockTable, stripe: number, expected: number, replacement: number): number {
  const { compareExchange } = table;
  return compareExchange === undefined
    ? Atomics.compareExchange(table.words, wordIndex(stripe), expected, replacement)
    : compareExchange(table.firstAddress + (stripe << ADDRESS_SHIFT), expected, replacement);
}

function take(table: LockTable, stripe: number): boolean {
  return exchange(table, stripe, 0, table.slot) === 0;
}

function takeShared(table: LockTable, stripe: number): boolean {
  const index = wordIndex(stripe);
  const word = table.words[index]!;
  const shares = table.shares!;
  let next: number;
  if (word === 0) next = SHARED | 1;
  else if ((word & ~HOLDER_MASK) === SHARED && (word & HOLDER_MASK) < HOLDER_MASK) next = word + 1;
  else return false;
  if (exchange(table, stripe, word, next) !== word) return false;
  shares[stripe]!++;
  return true;
}

function giveBack(table: LockTable, stripe: number): void {
  const { slot } = table;
  if (exchange(table, stripe, slot, 0) !== slot) table.release(stripe, false);
}

function giveBackShared(table: LockTable, stripe: number): void {
  const index = wordIndex(stripe);
  const word = table.words[index]!;
  const shares = table.shares!;
  const next = word === (SHARED | 1) ? 0 : word - 1;
  // Of several shared holders any but the last may leave without asking who waits.
  const simple = word === (SHARED | 1) || ((word & SHARED) !== 0 && (word & HOLDER_MASK) > 1);
  if (simple && exchange(table, stripe, word, next) === word) shares[stripe]!--;
  else table.release(stripe, true);
}
