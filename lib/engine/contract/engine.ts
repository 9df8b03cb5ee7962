import type { StripeState, StripedLockStats } from '../../common/types.js';
import type { Mode } from './mode.js';
import type { TableMemory, TableSpan } from './table-memory.js';

/**
 * Evaluations of this package in one thread share a native engine if this number is the same in them. Raise it with
 * every change to this file, to `lease-table.ts`, to `layout.ts`, to `mode.ts` or to what the addon exports.
 */
export const ENGINE_PROTOCOL = 2;

export type EngineName = 'native' | 'javascript';

/** The outcome of an acquisition that compare-and-swap alone could not finish. */
export type Outcome =
  /** All stripes are held now. `abandoned`: some stripe's earlier holder died. */
  | { status: 'granted'; abandoned: boolean }
  /** Nothing is held. `stripe` is the one that was not free in time, `holders` the thread ids known to hold it. */
  | { status: 'timeout'; stripe: number; holders: readonly number[] }
  /** Nothing is held. `threads` wait for each other in this order; `stripes[i]` is what `threads[i]` waits for. */
  | { status: 'deadlock'; threads: readonly number[]; stripes: readonly number[] }
  /** Nothing is held, and this thread is being ended: it may run no more JavaScript. */
  | { status: 'interrupted' };

export type Failure = Exclude<Outcome, { status: 'granted' }>;

/** What an engine needs to know to go on with an acquisition that the fast path began. */
export interface Request {
  /** Ascending, no duplicates, at least one. */
  readonly stripes: readonly number[];
  /** How many of them, from the front, the caller holds already. Given back if the request fails. */
  readonly taken: number;
  readonly mode: Mode;
  /** Milliseconds for the rest of the acquisition; 0 makes one attempt, Infinity waits for ever. */
  readonly timeout: number;
  /** A signal may end it earlier. */
  readonly abortable?: boolean;
  /** What `inspect()` shows of a traced acquisition while it waits. */
  readonly note: string | undefined;
}

/** A property of what must not be cloned to another thread. Symbols cannot be cloned, and the DataCloneError shows this. */
export const THREAD_BOUND = Symbol(
  'a stripelock Guard belongs to its thread: send the handle of the lock instead, and acquire there',
);

/** An acquisition that waits on the event loop. */
export interface AsyncWaiter {
  /** For the engine's use while the waiter is pending. */
  ticket: number;
  readonly table: LockTable;
  /**
   * Called on the waiter's own thread, where the stack is empty, never from within {@link LockTable.acquireAsync}. Once;
   * should it throw nevertheless, then once more, and those that are settled with it do not notice.
   */
  settle(outcome: Outcome): void;
}

/**
 * One thread's view of one lock: everything but the fast path, which `StripedLock` and `Guard` carry out
 * themselves on {@link words}. Used by that one thread only.
 *
 * T1  From the first change of a word to the hand-over of the guard nothing can throw, or the failure is undone.
 *
 * Any call of a function in JavaScript can throw: it may overflow the stack, or run somebody else's code (a getter, a
 * listener, `Error.prepareStackTrace`, a method that was replaced). A built-in function checks the stack, too. A function
 * that runs for the first time, or again after long, has to be compiled, which takes far more of the stack. What cannot
 * throw: storing, allocating, and calling the addon where it was just called. So whoever changes words makes all other
 * calls before: guard, promise, listener, timer, note and microtask come first. If a call has to come after, a `catch` lets
 * `defer` (`host.ts`) make it from the microtask queue: never next to the engine's call, but some functions up, where the
 * stack that was enough for that call is more than enough.
 *
 * So if {@link acquireSync}, {@link acquireAsync}, {@link cancel} or {@link release} throws, it has changed nothing, and
 * can be called again.
 */
export interface LockTable {
  readonly engine: EngineName;
  readonly stripes: number;
  readonly memory: TableMemory;
  /**
   * The words that the fast path works on: the lock's own memory (see `layout.ts`), or, where every
   * acquisition is to go through the engine, a dummy whose words are never free.
   */
  readonly words: Int32Array;
  /**
   * On the same words, quicker than `Atomics.compareExchange`, where there is such a thing: by addresses, of which
   * {@link firstAddress} is that of the first stripe's word.
   */
  readonly compareExchange: ((address: number, expected: number, replacement: number) => number) | undefined;
  readonly firstAddress: number;
  /** The 64-bit cells of the header; see `layout.ts`. */
  readonly cells: BigInt64Array;
  /** What this thread writes into the word of a stripe that it holds exclusively. */
  readonly slot: number;
  /**
   * Shared holds of this thread by stripe. The fast path counts here right after it changed the word, with
   * nothing between the two that could throw or be interrupted. Allocated by {@link openShares}.
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
   * To be called before the fast path tries an async acquisition. A thread that goes from one to the next in microtasks
   * does not get to its event loop, where its waiters would learn that it is their turn. (Not after it: a stack that
   * ended in this call would then leave a guard that nobody has.)
   */
  acquiringAsync(): void;
  /**
   * Takes a waiter out, on account of an abort. True: it holds nothing and will not be settled. False: it
   * was settled already.
   */
  cancel(waiter: AsyncWaiter): boolean;
  /** Gives one stripe back where the fast path could not, {@link shares} included. */
  release(stripe: number, mode: Mode): void;

  /** Ids of the threads that hold a stripe, as far as known. */
  holders(stripe: number): readonly number[];
  /** Lets `inspect()` show a note with stripes that are held, until it is removed. Returns its id. */
  addNote(stripes: Int32Array, note: string): number;
  removeNote(id: number): void;

  stats(): StripedLockStats;
  inspect(): StripeState[];
}

/** Makes and opens tables. One per thread and engine. */
export interface Engine {
  readonly name: EngineName;
  /** New shared memory for a lock, its header filled in. */
  create(stripes: number): TableMemory;
  /**
   * Joins a lock whose header has been checked to be this engine's; its table is in `span`, a part of `memory`. Throws
   * a LockError or a TypeError where it may not.
   */
  open(memory: TableMemory, span: TableSpan, stripes: number): LockTable;
}
