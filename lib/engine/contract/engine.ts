import type { StripeState, StripedLockStats } from '../../common/types.js';
import type { BegunWait, ContentionRecorder } from './contention.js';
import type { ExactKeys } from './exact-keys.js';
import type { Mode } from './mode.js';
import type { TableMemory, TableShape, TableSpan } from './table-memory.js';

/**
 * Evaluations of this package in one thread share a native engine if this number is the same in them. Raise it with
 * every change to this file, to `contention.ts`, to `exact-keys.ts`, to `lease-table.ts`, to `web-locks.ts`, to `process-locks.ts`,
 * to `layout.ts`, to `mode.ts`, to `wait-times.ts`, to `lib/lock/pinned-keys.ts`, or to what the addon exports.
 */
export const ENGINE_PROTOCOL = 12;

export type EngineName = 'native' | 'javascript';

/** The outcome of an acquisition that compare-and-swap alone could not finish. */
export type Outcome =
  /** All stripes are held now. `abandoned`: some stripe's earlier holder died. `waited`: this counts as `contended`. */
  | { status: 'granted'; abandoned: boolean; waited: boolean }
  /** Nothing is held. `stripe` is the one that was not free in time, `holders` the thread ids known to hold it. */
  | { status: 'timeout'; stripe: number; holders: readonly number[] }
  /** Nothing is held. `threads` wait for each other in this order; `stripes[i]` is what `threads[i]` waits for. */
  | { status: 'deadlock'; threads: readonly number[]; stripes: readonly number[]; waited: boolean }
  /** Nothing is held, and this thread is being ended: it may run no more JavaScript. */
  | { status: 'interrupted' };

/** What an engine returns is made before it changes anything: the literal of an object can overflow the stack (T1). */
export const GRANTED = granted(false, false);
export const GRANTED_WITH_ABANDONED = granted(true, false);
/** The same after a wait. */
export const GRANTED_LATE = granted(false, true);
export const GRANTED_LATE_WITH_ABANDONED = granted(true, true);

function granted(abandoned: boolean, waited: boolean): Outcome {
  return Object.freeze({ status: 'granted', abandoned, waited });
}

export type Failure = Exclude<Outcome, { status: 'granted' }>;

/** What an engine needs to know to go on with an acquisition that the fast path began. */
export interface Request {
  /** Ascending, no duplicates, at least one. */
  readonly stripes: readonly number[];
  /** How many of them, from the front, the caller holds already. Given back if the request fails. */
  readonly taken: number;
  readonly mode: Mode;
  /** Milliseconds for the rest of the acquisition; 0 makes one attempt, Infinity waits forever. */
  readonly timeout: number;
  /** A signal may end it earlier. */
  readonly abortable?: boolean;
  /** What `inspect()` shows of a traced acquisition while it waits. */
  readonly note: string | undefined;
}

/** An acquisition that waits on the event loop. */
export interface AsyncWaiter extends Request {
  /** The only stripe, or -1 if there are several. */
  readonly only: number;
  /** The engine uses it, and the next four, while the waiter is pending. */
  ticket: number;
  queue: object | undefined;
  previous: AsyncWaiter | undefined;
  next: AsyncWaiter | undefined;
  since: number;
  readonly table: LockTable;
  /** How its wait began, if somebody wants to know. */
  readonly begun: BegunWait | undefined;
  /**
   * Called once, on the waiter's own thread, with an empty stack, and never from within {@link LockTable.acquireAsync}.
   * Never throws, so that it does not affect the waiters that are settled with it.
   */
  settle(outcome: Outcome): void;
}

/**
 * One thread's view of one lock: everything but the fast path, which `StripedLock` and `Guard` carry out
 * themselves on {@link words}. Used by that one thread only.
 *
 * T1  From the first change of a word to the hand-over of the guard nothing can throw, or the failure is undone.
 *
 * Any call of a JavaScript function can throw: it may overflow the stack, or run somebody else's code (a getter, a
 * listener, `Error.prepareStackTrace`, a method that was replaced). A built-in function checks the stack, too. A
 * function that runs for the first time, or for the first time in a long while, must be compiled, which takes far more
 * stack. What cannot throw: storing, allocating, and calling the addon from where it was just called. So code that
 * changes words makes all other calls first: guard, promise, listener, timer, note and microtask. If a call has to come
 * afterwards, a `catch` has `defer` (`host.ts`) make it from the microtask queue. That `catch` is never next to the
 * engine's call, but some functions up, where more stack is left than that call needed.
 *
 * So if {@link acquireSync}, {@link acquireAsync}, {@link cancel} or {@link release} throws, it has changed nothing, and
 * can be called again. The JavaScript engine keeps less of this: after a stack overflow a stripe may stay held and a waiter wait
 * for ever, but nobody gets what others hold, and whoever gives back again what it still has does no harm.
 */
export interface LockTable {
  readonly engine: EngineName;
  readonly stripes: number;
  /** How many may hold a stripe at once; 1 unless its only mode is that of permits (`mode.ts`). */
  readonly limit: number;
  /**
   * A handle needs it. Reading it shares the memory: from then on any thread may open the lock at any time, so the memory never
   * becomes another lock's.
   */
  readonly memory: TableMemory;
  /** The words that the fast path works on: the lock's own memory (see `layout.ts`). */
  readonly words: Int32Array;
  /**
   * Works on the same words, faster than `Atomics.compareExchange`; undefined if unavailable. It takes addresses:
   * {@link firstAddress} is that of the first stripe's word.
   */
  readonly compareExchange: ((address: number, expected: number, replacement: number) => number) | undefined;
  readonly firstAddress: number;
  /** The 64-bit cells of the header; see `layout.ts`. */
  readonly cells: BigInt64Array;
  /** What this thread writes into the word of a stripe that it holds exclusively. */
  readonly slot: number;
  /**
   * Shared holds of this thread by stripe. The fast path counts here right after it changes the word. Nothing between
   * the two can throw or be interrupted. Allocated by {@link openShares}.
   */
  readonly shares: Int32Array | undefined;
  openShares(): Int32Array;

  /** The stripe of a string's UTF-8 bytes, or of bytes. */
  hash(key: string | Uint8Array): number;

  /** Blocks until the request is decided. */
  acquireSync(request: Request): Outcome;
  /** Decides at once, or returns undefined and calls `waiter.settle` later. The event loop stays alive until then. */
  acquireAsync(request: Request, waiter: AsyncWaiter): Outcome | undefined;
  /**
   * Call this before the fast path tries an async acquisition. A thread that goes from one to the next in microtasks
   * does not return to its event loop, where its waiters would learn that it is their turn. (Do not call it afterwards:
   * a stack overflow in this call would then leave a held guard that nobody can release.)
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
  /** Lets `inspect()` show a note with stripes that are held, until it is removed. Returns its id. */
  addNote(stripes: Int32Array, note: string): number;
  removeNote(id: number): void;

  stats(): StripedLockStats;
  /** In constant time. */
  counts(stripe: number): StripeCounts;
  inspect(): StripeState[];

  /** Undefined where waits cannot be recorded. */
  readonly contention: ContentionRecorder | undefined;

  /** Which stripe each key has for its own; undefined unless the table was made for that. */
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
  /** A new lock. */
  create(shape: TableShape): LockTable;
  /**
   * Joins a lock whose header has been checked to be this engine's; its table is in `span`, a part of `memory`. Throws
   * a LockError or a TypeError if this thread cannot join.
   */
  open(memory: TableMemory, span: TableSpan, shape: TableShape): LockTable;
}
