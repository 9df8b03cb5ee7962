import { inspect, type InspectOptions } from 'node:util';
import type { LockTable, Request } from './engine/engine.js';
import { TOKEN_CELL, wordIndex } from './engine/layout.js';
import { HOLDER_MASK, SHARED } from './engine/lock-word.js';
import { LockError } from './errors.js';
import { traceReleased } from './trace.js';
import type { LockKey, LockMode } from './types.js';

/** Of {@link Guard}'s state: see there. */
const SHARED_MODE = 1;
const HELD = 2;
const ABANDONED = 4;
const TRACED = 8;

/** A guard that holds nothing yet. Made before the first stripe is taken, so that nothing can fail after it. */
export let createGuard: <K extends LockKey, M extends LockMode>(
  table: LockTable,
  keys: K | readonly K[],
  stripes: number | Int32Array,
  shared: boolean,
) => Guard<K, M>;

/**
 * The fast path: one compare-and-swap per stripe. False at the first that is not free; those before it stay
 * with the guard, to be passed on by {@link requestFor} or given back by `release`.
 */
export let tryTake: (guard: Guard) => boolean;

/** Hands what the fast path took over to the engine. */
export let requestFor: (guard: Guard, timeout: number, note: string | undefined) => Request;

/** From now on its release is to be told to the trace. */
export let markTraced: (guard: Guard) => void;

/** Records that the engine took everything. */
export let grant: (guard: Guard, abandoned: boolean) => void;

/**
 * Holds its stripes until released. No key: holds nothing, and is valid.
 * Typed by its keys and mode, so that a function can ask for proof: `write(row, guard: Guard<string, 'exclusive'>)`.
 *
 * Belongs to the thread that acquired it; posting it to another one throws a DataCloneError.
 */
export class Guard<K extends LockKey = LockKey, M extends LockMode = LockMode> implements Disposable {
  /**
   * Own, enumerable and with something in it that structured clone refuses (see {@link LockTable.threadBound}):
   * a copy of a guard in another thread would hold nothing. The rest is private, and few fields: making a guard
   * is a good part of what an acquisition costs.
   */
  protected readonly table: LockTable;
  readonly #keys: K | readonly K[];
  /** The only stripe, or the ascending list of all. */
  readonly #stripes: number | Int32Array;
  /** SHARED_MODE, HELD, ABANDONED, TRACED. */
  #flags: number;
  /** How many stripes, from the front, are held. */
  #taken = 0;
  #token: bigint | undefined = undefined;

  private constructor(
    table: LockTable,
    keys: K | readonly K[],
    stripes: number | Int32Array,
    shared: boolean,
  ) {
    this.table = table;
    this.#keys = keys;
    this.#stripes = stripes;
    this.#flags = shared ? SHARED_MODE : 0;
  }

  /** The keys as they were passed, duplicates included. */
  get keys(): readonly K[] {
    const keys = this.#keys;
    return Array.isArray(keys) ? (keys as readonly K[]) : [keys as K];
  }

  /** Ascending, no duplicates. Taken in this order, released in reverse. */
  get stripes(): readonly number[] {
    const stripes = this.#stripes;
    return typeof stripes === 'number' ? [stripes] : Array.from(stripes);
  }

  get mode(): M {
    return ((this.#flags & SHARED_MODE) !== 0 ? 'shared' : 'exclusive') as M;
  }

  get held(): boolean {
    return (this.#flags & HELD) !== 0;
  }

  /**
   * True when an earlier holder's thread ended without releasing: what the lock protects may be half-written.
   * Told to shared holders and to the first exclusive one.
   */
  get abandoned(): boolean {
    return (this.#flags & ABANDONED) !== 0;
  }

  /**
   * Fencing token: greater than that of every earlier holder of any of these stripes. Starts at the wall
   * clock's nanoseconds when the lock was made. Assigned at first read, which must happen while held: throws
   * a LockError with code ERR_LOCK_NOT_HELD otherwise. Once read, it stays readable.
   */
  get token(): bigint {
    if (this.#token === undefined) {
      if (!this.held) {
        throw new LockError('ERR_LOCK_NOT_HELD', 'a token must be read first while the guard is held');
      }
      this.#token = Atomics.add(this.table.cells, TOKEN_CELL, 1n) + 1n;
    }
    return this.#token;
  }

  /** Idempotent. Does nothing to stripes that somebody else has acquired since. */
  release(): void {
    this.#flags &= ~HELD;
    if ((this.#flags & TRACED) !== 0) traceReleased(this);
    const { table } = this;
    const shared = (this.#flags & SHARED_MODE) !== 0;
    const stripes = this.#stripes;
    while (this.#taken > 0) {
      const last = this.#taken - 1;
      const stripe = typeof stripes === 'number' ? stripes : stripes[last]!;
      // The count goes down after the stripe, so that an exception on the way (a stack overflow) leaves a
      // guard that can still be released; nothing in between runs code that could release it again.
      if (shared) giveBackShared(table, stripe);
      else giveBack(table, stripe);
      this.#taken = last;
    }
  }

  [Symbol.dispose](): void {
    this.release();
  }

  /** What `console.log` shows. */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { keys, stripes, mode, held, abandoned } = this;
    return `Guard ${inspect({ keys, stripes, mode, held, abandoned }, options)}`;
  }

  static {
    createGuard = (table, keys, stripes, shared) => new Guard(table, keys, stripes, shared);

    tryTake = (guard) => {
      const { table } = guard;
      const shared = (guard.#flags & SHARED_MODE) !== 0;
      const stripes = guard.#stripes;
      if (typeof stripes === 'number') {
        if (!(shared ? takeShared(table, stripes) : take(table, stripes))) return false;
        guard.#taken = 1;
      } else {
        for (let i = guard.#taken; i < stripes.length; i++) {
          const stripe = stripes[i]!;
          if (!(shared ? takeShared(table, stripe) : take(table, stripe))) return false;
          guard.#taken = i + 1;
        }
      }
      guard.#flags |= HELD;
      return true;
    };

    requestFor = (guard, timeout, note) => {
      const stripes = guard.#stripes;
      const request = {
        stripes: typeof stripes === 'number' ? Int32Array.of(stripes) : stripes,
        taken: guard.#taken,
        shared: (guard.#flags & SHARED_MODE) !== 0,
        timeout,
        note,
      };
      // From here on the engine answers for what is held.
      guard.#taken = 0;
      return request;
    };

    markTraced = (guard) => {
      guard.#flags |= TRACED;
    };

    grant = (guard, abandoned) => {
      const stripes = guard.#stripes;
      guard.#taken = typeof stripes === 'number' ? 1 : stripes.length;
      guard.#flags |= abandoned ? HELD | ABANDONED : HELD;
    };
  }
}

function take(table: LockTable, stripe: number): boolean {
  return Atomics.compareExchange(table.words, wordIndex(stripe), 0, table.slot) === 0;
}

function takeShared(table: LockTable, stripe: number): boolean {
  const index = wordIndex(stripe);
  const word = Atomics.load(table.words, index);
  let next: number;
  if (word === 0) next = SHARED | 1;
  else if ((word & ~HOLDER_MASK) === SHARED && (word & HOLDER_MASK) < HOLDER_MASK) next = word + 1;
  else return false;
  if (Atomics.compareExchange(table.words, index, word, next) !== word) return false;
  table.shares![stripe]!++;
  return true;
}

function giveBack(table: LockTable, stripe: number): void {
  const { slot } = table;
  if (Atomics.compareExchange(table.words, wordIndex(stripe), slot, 0) !== slot) table.release(stripe, false);
}

function giveBackShared(table: LockTable, stripe: number): void {
  const index = wordIndex(stripe);
  const word = Atomics.load(table.words, index);
  const next = word === (SHARED | 1) ? 0 : word - 1;
  // Of several shared holders any but the last may leave without asking who waits.
  const simple = word === (SHARED | 1) || ((word & SHARED) !== 0 && (word & HOLDER_MASK) > 1);
  if (simple && Atomics.compareExchange(table.words, index, word, next) === word) table.shares![stripe]!--;
  else table.release(stripe, true);
}
