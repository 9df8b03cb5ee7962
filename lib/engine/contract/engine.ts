import type { LockKey, StripeState, StripedLockStats } from '../../common/types.js';
import type { BegunWait, ContentionRecorder } from './contention.js';
import type { ExactKeys } from './exact-keys.js';
import type { Mode } from './mode.js';
import type { TableMemory, TableShape, TableSpan } from './table-memory.js';

/**
 * If this package's modules are evaluated several times in a thread, these evaluations share a native engine
 * only if they have the same number here. Increase the number with every change to this file, to
 * `contention.ts`, to `exact-keys.ts`, to `lease-table.ts`, to `web-locks.ts`, to `process-locks.ts`, to
 * `layout.ts`, to `mode.ts`, to `wait-times.ts`, to `lib/lock/pinned-keys.ts`, or to the addon's exports.
 */
export const ENGINE_PROTOCOL = 15;

export type EngineName = 'native' | 'javascript';

/** The outcome of an acquisition that the fast path could not finish. */
export type Outcome =
  /**
   * All stripes are held. `abandoned`: an earlier holder of one of the stripes died without releasing it.
   * `waited`: the acquisition had to wait, and is counted in the metric `contended`.
   */
  | { status: 'granted'; abandoned: boolean; waited: boolean }
  /**
   * Nothing is held. `stripe`: the stripe that was not free in time. `holders`: the ids of the threads that
   * hold it, as far as known.
   */
  | { status: 'timeout'; stripe: number; holders: readonly number[] }
  /**
   * Nothing is held. Each of `threads` waits for the next one, and the last one for the first: `threads[i]`
   * waits for `stripes[i]`. `keys` is set only for the lock of a file: `keys[i]` is the key that `threads[i]`
   * waits for, if the key belongs to this file. `waited`: as above.
   */
  | {
      status: 'deadlock';
      threads: readonly number[];
      stripes: readonly number[];
      keys?: readonly (LockKey | undefined)[];
      waited: boolean;
    }
  /** Nothing is held. This thread is being ended, so it may not run any more JavaScript. */
  | { status: 'interrupted' }
  /**
   * Nothing is held, because the lock's file cannot be used. `fault` and `number`: see `FileFault` in
   * `process-locks.ts`.
   */
  | { status: 'failed'; fault: number; number: number };

/** The outcomes for a grant. They are created in advance, so that returning one cannot throw (keeps T1). */
export const GRANTED = granted(false, false);
export const GRANTED_WITH_ABANDONED = granted(true, false);
/** The same outcomes for an acquisition that had to wait. */
export const GRANTED_LATE = granted(false, true);
export const GRANTED_LATE_WITH_ABANDONED = granted(true, true);

function granted(abandoned: boolean, waited: boolean): Outcome {
  return Object.freeze({ status: 'granted', abandoned, waited });
}

export type Failure = Exclude<Outcome, { status: 'granted' }>;

/** An acquisition that the fast path has started and the engine must finish. */
export interface Request {
  /** The stripes to acquire: at least one, ascending, without duplicates. */
  readonly stripes: readonly number[];
  /** The caller already holds the first `taken` stripes. The engine releases them if the request fails. */
  readonly taken: number;
  readonly mode: Mode;
  /**
   * The time, in milliseconds, that the acquisition may still take. 0 makes one attempt; Infinity waits
   * forever.
   */
  readonly timeout: number;
  /** Whether an `AbortSignal` may end the acquisition earlier. */
  readonly abortable?: boolean;
  /** For a traced acquisition: the text that `inspect()` shows while the acquisition waits. */
  readonly note: string | undefined;
}

/** An acquisition that waits on the event loop. */
export interface AsyncWaiter extends Request {
  /** The stripe, if the acquisition requests only one; otherwise -1. */
  readonly only: number;
  /** While the waiter is pending, its engine uses this field and the next four. */
  ticket: number;
  queue: object | undefined;
  previous: AsyncWaiter | undefined;
  next: AsyncWaiter | undefined;
  since: number;
  readonly table: LockTable;
  /** The start of the wait, if subscribers, metrics or a profile observe the wait; otherwise undefined. */
  readonly begun: BegunWait | undefined;
  /**
   * Reports the outcome to the waiter. The engine calls this method once, on the waiter's own thread, with an
   * empty stack, and never from within {@link LockTable.acquireAsync}. The method must not throw, because the
   * engine may have to settle other waiters after this one.
   */
  settle(outcome: Outcome): void;
}

/**
 * One thread's view of one lock; only that thread uses the object. The fast path changes {@link words}
 * directly. The engine does everything else through this interface.
 *
 * T1  Between the first change of a word and the change of the guard's state, nothing can throw, unless the
 *     code then undoes the change of the word.
 *
 * Any call of a JavaScript function or a built-in function can throw. It may overflow the stack. Or it may
 * run code of the program: a getter, a listener, `Error.prepareStackTrace`, or a method that the program has
 * replaced. The first call of a function also compiles it, which takes far more stack. Storing a value,
 * allocating memory, and repeating a call of the addon cannot throw. So code that changes words makes all
 * other calls first: it creates the guard, promise, listener, timer, note and microtask. If a call must come
 * later, a `catch` some functions up passes the call to `defer` (`host.ts`), which repeats it in a microtask.
 * That `catch` has more stack left than the failed call had.
 *
 * So if {@link acquireSync}, {@link acquireAsync}, {@link cancel} or {@link release} throws, it has changed
 * nothing and can be called again. For the JavaScript engine this is weaker: it guarantees only exclusion.
 * After an exception, a stripe may stay held, and a waiter may wait forever. Releasing a stripe again does no
 * harm.
 */
export interface LockTable {
  readonly engine: EngineName;
  readonly stripes: number;
  /** The number of permits of each stripe. 1 if the table has no permits (`mode.ts`). */
  readonly limit: number;
  /**
   * The memory to put into a handle. Reading this property shares the memory: any thread may open the lock
   * later, so the memory is never reused for another lock.
   */
  readonly memory: TableMemory;
  /**
   * The lock's memory as 32-bit integers. The fast path changes the words of stripes in it (see `layout.ts`).
   */
  readonly words: Int32Array;
  /**
   * A faster `Atomics.compareExchange` for the same words; undefined if not available. Instead of an index,
   * it takes an address in bytes. The address of the first stripe's word is {@link firstAddress}.
   */
  readonly compareExchange: ((address: number, expected: number, replacement: number) => number) | undefined;
  readonly firstAddress: number;
  /** The table's header as 64-bit cells: see `layout.ts`. */
  readonly cells: BigInt64Array;
  /** The number that this thread writes into the word of a stripe that it holds exclusively. */
  readonly slot: number;
  /**
   * The number of shared holds or permits that this thread has of each stripe. The fast path updates this
   * number right after it changes the word; between the two, nothing can throw or be interrupted. Undefined
   * until {@link openShares} has created the array.
   */
  readonly shares: Int32Array | undefined;
  openShares(): Int32Array;

  /** Maps a key to a stripe: a string by its UTF-8 bytes, or the bytes themselves. */
  hash(key: string | Uint8Array): number;

  /**
   * Replaces the fast path if other processes can hold the stripes, too; otherwise undefined. Makes one
   * attempt to hold a free stripe exclusively. Returns false also if an earlier holder died or the attempt
   * failed. The request that the caller makes next then reports the death or the failure.
   */
  readonly tryEnter: ((stripe: number) => boolean) | undefined;
  /** Blocks until the request is granted or has failed. */
  acquireSync(request: Request): Outcome;
  /**
   * Returns the outcome if the request can be granted or refused at once. Otherwise returns undefined, and
   * calls `waiter.settle` later. The event loop stays alive until then.
   */
  acquireAsync(request: Request, waiter: AsyncWaiter): Outcome | undefined;
  /**
   * Call this before the fast path tries an async acquisition. It can throw, so call it before a word changes
   * (keeps T1). A thread that acquires again and again in microtasks does not return to its event loop, where
   * its waiters are served. So this method sometimes serves them.
   */
  acquiringAsync(): void;
  /**
   * Removes a waiter whose signal was aborted. Returns true if the waiter now holds nothing and will not be
   * settled. Returns false if the waiter was already settled.
   */
  cancel(waiter: AsyncWaiter): boolean;
  /**
   * Releases one hold of a stripe whose word is in a state that the fast path cannot handle. Also updates
   * {@link shares}.
   */
  release(stripe: number, mode: Mode): void;

  /** The ids of the threads that hold a stripe, as far as known. */
  holders(stripe: number): readonly number[];
  /**
   * Makes `inspect()` show this note for these stripes, which this thread holds. Returns an id for
   * {@link removeNote}.
   */
  addNote(stripes: Int32Array, note: string): number;
  removeNote(id: number): void;

  stats(): StripedLockStats;
  /** The word of a stripe, and the number of its waiters. Cheaper than {@link inspect}. */
  counts(stripe: number): StripeCounts;
  inspect(): StripeState[];

  /** Records waits for profiles of contention. Undefined if the engine cannot record them. */
  readonly contention: ContentionRecorder | undefined;

  /**
   * Maps keys to stripes, if each key in use has a separate stripe. Undefined if keys are hashed to stripes.
   */
  readonly keys: ExactKeys | undefined;
}

/** The word of a stripe, and how many acquisitions wait for the stripe, as far as known. */
export interface StripeCounts {
  readonly word: number;
  readonly waiting: number;
}

/** Creates and opens tables. Each thread has one object for each engine. */
export interface Engine {
  readonly name: EngineName;
  create(shape: TableShape): LockTable;
  /**
   * Opens an existing lock. The caller has already checked that the lock's header names this engine. `span`:
   * the part of `memory` that contains the lock's table. Throws a LockError or a TypeError if this thread
   * cannot use the lock.
   */
  open(memory: TableMemory, span: TableSpan, shape: TableShape): LockTable;
}
