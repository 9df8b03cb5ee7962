import type { LockKey, StripeState, StripedLockStats } from '../../common/types.js';
import type { BegunWait, ContentionRecorder } from './contention.js';
import type { ExactKeys } from './exact-keys.js';
import type { Mode } from './mode.js';
import type { TableMemory, TableShape, TableSpan } from './table-memory.js';

/**
 * Evaluations of this package in one thread share a native engine if they have the same number here. Raise it with every change
 * to this file, to `contention.ts`, to `exact-keys.ts`, to `lease-table.ts`, to `web-locks.ts`, to `process-locks.ts`, to
 * `layout.ts`, to `mode.ts`, to `wait-times.ts`, to `lib/lock/pinned-keys.ts`, or to the addon's exports.
 */
export const ENGINE_PROTOCOL = 15;

export type EngineName = 'native' | 'javascript';

/** The outcome of an acquisition that compare-and-swap alone could not finish. */
export type Outcome =
  /** All stripes are held now. `abandoned`: some stripe's earlier holder died. `waited`: this counts as `contended`. */
  | { status: 'granted'; abandoned: boolean; waited: boolean }
  /** Nothing is held. `stripe` is the one that was not free in time, `holders` the thread ids known to hold it. */
  | { status: 'timeout'; stripe: number; holders: readonly number[] }
  /**
   * Nothing is held. `threads` wait for each other in this order, and `threads[i]` waits for `stripes[i]`. `keys`, only for the
   * lock of a file: `keys[i]` is the key that `threads[i]` waits for, if the key belongs to this file.
   */
  | {
      status: 'deadlock';
      threads: readonly number[];
      stripes: readonly number[];
      keys?: readonly (LockKey | undefined)[];
      waited: boolean;
    }
  /** Nothing is held, and this thread is being ended: it may run no more JavaScript. */
  | { status: 'interrupted' }
  /** Nothing is held, and the file of the lock cannot be used: see `FileFault` in `process-locks.ts`. */
  | { status: 'failed'; fault: number; number: number };

/** The outcomes of an engine are created in advance, because creating an object can throw (T1). */
export const GRANTED = granted(false, false);
export const GRANTED_WITH_ABANDONED = granted(true, false);
/** The same outcomes after a wait. */
export const GRANTED_LATE = granted(false, true);
export const GRANTED_LATE_WITH_ABANDONED = granted(true, true);

function granted(abandoned: boolean, waited: boolean): Outcome {
  return Object.freeze({ status: 'granted', abandoned, waited });
}

export type Failure = Exclude<Outcome, { status: 'granted' }>;

/** An acquisition that the fast path started and the engine finishes. */
export interface Request {
  /** Ascending, no duplicates, at least one. */
  readonly stripes: readonly number[];
  /** The number of stripes, from the first, that the caller holds already. The engine gives them back if the request fails. */
  readonly taken: number;
  readonly mode: Mode;
  /** Milliseconds for the rest of the acquisition; 0 makes one attempt, Infinity waits forever. */
  readonly timeout: number;
  /** Whether a signal may end the acquisition earlier. */
  readonly abortable?: boolean;
  /** The text that `inspect()` shows for a traced acquisition while it waits. */
  readonly note: string | undefined;
}

/** An acquisition that waits on the event loop. */
export interface AsyncWaiter extends Request {
  /** The only stripe, or -1 if there are several. */
  readonly only: number;
  /** This field and the next four are for the engine, while the waiter is pending. */
  ticket: number;
  queue: object | undefined;
  previous: AsyncWaiter | undefined;
  next: AsyncWaiter | undefined;
  since: number;
  readonly table: LockTable;
  /** The start of the wait, if waits are observed. */
  readonly begun: BegunWait | undefined;
  /**
   * Called once, on the waiter's own thread, with an empty stack, and never from within {@link LockTable.acquireAsync}.
   * Never throws, so that it does not affect the waiters that are settled with it.
   */
  settle(outcome: Outcome): void;
}

/**
 * One thread's view of one lock, which only that thread uses. It covers everything except the fast path, which changes
 * {@link words} directly.
 *
 * T1  From the first change of a word to the change of the guard's state nothing can throw, or the failure is undone.
 *
 * Any call of a JavaScript or built-in function can throw: it may overflow the stack, or run code of the program (a getter, a
 * listener, `Error.prepareStackTrace`, a replaced method). The first call of a function also compiles it, which takes far
 * more stack. Storing, allocating, and repeating a call of the addon cannot throw. So code that changes words makes all other
 * calls first: guard, promise, listener, timer, note and microtask. If a call must come later, a `catch` some functions up
 * makes `defer` (`host.ts`) repeat it in a microtask. There, more stack is left than the engine's call needed.
 *
 * So if {@link acquireSync}, {@link acquireAsync}, {@link cancel} or {@link release} throws, it has changed nothing, and can be
 * called again. The JavaScript engine keeps only exclusion: a stripe may stay held, and a waiter may wait forever. Releasing a
 * stripe again does no harm.
 */
export interface LockTable {
  readonly engine: EngineName;
  readonly stripes: number;
  /** The number of acquisitions that may hold a stripe at once. 1 unless the table has permits (`mode.ts`). */
  readonly limit: number;
  /**
   * The memory for a handle. Reading this property shares the memory: any thread may open the lock later, so the memory is
   * never reused for another lock.
   */
  readonly memory: TableMemory;
  /** The words that the fast path works on: the lock's own memory (see `layout.ts`). */
  readonly words: Int32Array;
  /**
   * A faster `Atomics.compareExchange` for the same words; undefined if unavailable. It takes an address: the first stripe's
   * word is at {@link firstAddress}.
   */
  readonly compareExchange: ((address: number, expected: number, replacement: number) => number) | undefined;
  readonly firstAddress: number;
  /** The 64-bit cells of the header; see `layout.ts`. */
  readonly cells: BigInt64Array;
  /** The number that this thread writes into the word of a stripe that it holds exclusively. */
  readonly slot: number;
  /**
   * Shared holds of this thread by stripe. The fast path counts here right after it changes the word. Nothing between
   * the two can throw or be interrupted. Allocated by {@link openShares}.
   */
  readonly shares: Int32Array | undefined;
  openShares(): Int32Array;

  /** The stripe of a string's UTF-8 bytes, or of bytes. */
  hash(key: string | Uint8Array): number;

  /**
   * Replaces the fast path if holders outside the process count: one attempt to hold a free stripe exclusively. False also if
   * an earlier holder died or the attempt failed: the request that follows reports that.
   */
  readonly tryEnter: ((stripe: number) => boolean) | undefined;
  /** Blocks until the request is decided. */
  acquireSync(request: Request): Outcome;
  /** Decides at once, or returns undefined and calls `waiter.settle` later. The event loop stays alive until then. */
  acquireAsync(request: Request, waiter: AsyncWaiter): Outcome | undefined;
  /**
   * Call this before the fast path tries an async acquisition, and before a word changes, because it can throw (T1). A thread
   * that acquires again and again in microtasks does not return to its event loop. So this method sometimes serves the thread's
   * waiters.
   */
  acquiringAsync(): void;
  /**
   * Removes a waiter because its signal was aborted. True: it holds nothing and will not be settled. False: it was
   * already settled.
   */
  cancel(waiter: AsyncWaiter): boolean;
  /** Gives one stripe back if the fast path could not, and updates {@link shares}. */
  release(stripe: number, mode: Mode): void;

  /** Ids of the threads that hold a stripe, as far as known. */
  holders(stripe: number): readonly number[];
  /** Makes `inspect()` show a note with these held stripes, until it is removed. Returns the note's id. */
  addNote(stripes: Int32Array, note: string): number;
  removeNote(id: number): void;

  stats(): StripedLockStats;
  /** The state of a stripe, in constant time. */
  counts(stripe: number): StripeCounts;
  inspect(): StripeState[];

  /** Undefined where waits cannot be recorded. */
  readonly contention: ContentionRecorder | undefined;

  /** The exact keys of the table; undefined if it hashes keys to stripes. */
  readonly keys: ExactKeys | undefined;
}

/** How a stripe is held, and how many acquisitions wait for it, as far as known. */
export interface StripeCounts {
  readonly word: number;
  readonly waiting: number;
}

/** Makes and opens tables. One per thread and engine. */
export interface Engine {
  readonly name: EngineName;
  /** Creates a lock. */
  create(shape: TableShape): LockTable;
  /**
   * Joins a lock whose header has been checked to be this engine's; its table is in `span`, a part of `memory`. Throws
   * a LockError or a TypeError if this thread cannot join.
   */
  open(memory: TableMemory, span: TableSpan, shape: TableShape): LockTable;
}
