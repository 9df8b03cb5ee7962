import type { LockKey, StripeState, StripedLockStats } from '../../common/types.js';
import type { BegunWait, ContentionRecorder } from './contention.js';
import type { ExactKeys } from './exact-keys.js';
import type { Mode } from './mode.js';
import type { TableMemory, TableShape, TableSpan } from './table-memory.js';

/**
 * A thread may load several copies of this package, for example in a test runner with a module registry. The
 * copies share a native engine only if this number is the same in all of them. Increase the number with every
 * change to this file, to `contention.ts`, to `exact-keys.ts`, to `lease-table.ts`, to `web-locks.ts`, to
 * `process-locks.ts`, to `layout.ts`, to `mode.ts`, to `wait-times.ts`, to `lib/lock/pinned-keys.ts`, or to
 * the addon's exports.
 */
export const ENGINE_PROTOCOL = 20;

export type EngineName = 'native' | 'javascript';

/** The outcome of an acquisition that the fast path could not finish. */
export type Outcome =
  /**
   * The acquisition holds all its stripes. `abandoned`: true if an earlier holder of one of the stripes died
   * without releasing it. `waited`: true if the acquisition had to wait. The metric `contended` counts such
   * acquisitions.
   */
  | { status: 'granted'; abandoned: boolean; waited: boolean }
  /**
   * The acquisition holds nothing. `stripe`: the stripe that was not free in time. `holders`: the ids of the
   * threads that hold this stripe, as far as known.
   */
  | { status: 'timeout'; stripe: number; holders: readonly number[] }
  /**
   * The acquisition holds nothing. The threads in `threads` form a cycle: each thread waits for the next
   * thread, and the last thread for the first. `threads[i]` waits for `stripes[i]`. `keys` is set only for
   * the lock of a file: `keys[i]` is the key that `threads[i]` waits for, if the key belongs to this file.
   * `waited`: as for `granted`.
   */
  | {
      status: 'deadlock';
      threads: readonly number[];
      stripes: readonly number[];
      keys?: readonly (LockKey | undefined)[];
      waited: boolean;
    }
  /** The acquisition holds nothing. This thread is being terminated, so it must not run more JavaScript. */
  | { status: 'interrupted' }
  /**
   * The acquisition holds nothing, because the lock's file cannot be used. `fault` and `number`: see
   * `FileFault` in `process-locks.ts`. `waited`: as for `granted`.
   */
  | { status: 'failed'; fault: number; number: number; waited: boolean };

/**
 * The outcomes of a grant. They are created in advance, so that returning an outcome cannot throw (preserves
 * T1 of {@link LockTable}).
 */
export const GRANTED = granted(false, false);
export const GRANTED_WITH_ABANDONED = granted(true, false);
/** The outcomes of a grant after a wait. */
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
  /** The acquisition fails after this many milliseconds. 0 makes one attempt; Infinity waits forever. */
  readonly timeout: number;
  /** Whether an `AbortSignal` may end the acquisition earlier. */
  readonly abortable?: boolean;
  /** For a traced acquisition: the text that `inspect()` shows while the acquisition waits. */
  readonly note: string | undefined;
}

/** An acquisition that waits on the event loop. */
export interface AsyncWaiter extends Request {
  /** The requested stripe, if the acquisition requests only one stripe; otherwise -1. */
  readonly only: number;
  /** The engine uses the fields from `ticket` to `since` while the waiter is pending. */
  ticket: number;
  queue: object | undefined;
  previous: AsyncWaiter | undefined;
  next: AsyncWaiter | undefined;
  since: number;
  readonly table: LockTable;
  /**
   * Describes the start of the wait, if subscribers, metrics or a profile observe the wait; otherwise
   * undefined.
   */
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
 * directly. All other operations are methods of this interface.
 *
 * T1  Between the first change of a word and the change of the guard's state, nothing can throw, except where
 *     a `catch` undoes the change of the word.
 *
 * Any call of a JavaScript function or a built-in function can throw. The call may overflow the stack. Or the
 * call may run user code: a getter, a listener, `Error.prepareStackTrace`, or a method that the program has
 * replaced. The first call of a function also compiles the function, which takes far more stack. Storing a
 * value and allocating memory cannot throw, nor can a function of the addon that was called before. So code
 * that changes words makes all other calls first: it first creates the guard, promise, listener, timer, note
 * and microtask. If a call must come later and throws, a function further up the stack catches the exception.
 * It passes the call to `defer` (`common/host.ts`), which repeats the call in a microtask. The catching
 * function has more stack left than the failed call had.
 *
 * So if {@link acquireSync}, {@link acquireAsync}, {@link cancel} or {@link release} throws, it has changed
 * nothing and can be called again. The JavaScript engine guarantees only exclusion: after an exception, a
 * stripe may stay held, and a waiter may wait forever. Repeating a release does no harm.
 */
export interface LockTable {
  readonly engine: EngineName;
  readonly stripes: number;
  /** The number of permits of each stripe. 1 if the table has no permits (see `mode.ts`). */
  readonly limit: number;
  /**
   * The memory to put into a handle. Reading this property shares the memory: any thread may open the lock
   * later, so the memory is never reused for another lock.
   */
  readonly memory: TableMemory;
  /** The lock's memory as 32-bit integers. It contains the words of the stripes (see `layout.ts`). */
  readonly words: Int32Array;
  /**
   * A faster substitute for `Atomics.compareExchange` on {@link words}; undefined if it is not available.
   * `address` is in bytes, and {@link firstAddress} is the address of the first stripe's word.
   */
  readonly compareExchange: ((address: number, expected: number, replacement: number) => number) | undefined;
  readonly firstAddress: number;
  /** The table's header as 64-bit cells: see `layout.ts`. */
  readonly cells: BigInt64Array;
  /** The number that this thread writes into the word of a stripe that it holds exclusively. */
  readonly slot: number;
  /**
   * For each stripe, the number of shared holds or permits that this thread has. The fast path updates this
   * number right after it changes the word. Between the two changes, nothing can throw or be interrupted.
   * Undefined until {@link openShares} has created the array.
   */
  readonly shares: Int32Array | undefined;
  openShares(): Int32Array;

  /** Maps a key to a stripe by a hash of its bytes. The bytes of a string are its UTF-8 encoding. */
  hash(key: string | Uint8Array): number;

  /**
   * Replaces the fast path if other processes can also hold the stripes; otherwise undefined. Makes one
   * attempt to acquire the stripe exclusively. Returns false if the stripe is not free, if an earlier holder
   * died, or if the file cannot be used. The caller then makes a request, which reports the death or the
   * fault.
   */
  readonly tryEnter: ((stripe: number) => boolean) | undefined;
  /** Blocks until the request is granted or has failed. */
  acquireSync(request: Request): Outcome;
  /**
   * Returns the outcome if the request is granted or fails immediately. Otherwise returns undefined, and
   * calls `waiter.settle` later. The event loop stays alive until then.
   */
  acquireAsync(request: Request, waiter: AsyncWaiter): Outcome | undefined;
  /**
   * Sometimes serves this thread's waiters. Usually the event loop serves the waiters, but a thread that
   * keeps acquiring in microtasks does not return to its event loop. Call this method before the fast path
   * tries an async acquisition. It can throw, so call it before a word changes (preserves T1).
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
   * Makes `inspect()` show this note for these stripes. This thread must hold the stripes. Returns an id for
   * {@link removeNote}.
   */
  addNote(stripes: Int32Array, note: string): number;
  removeNote(id: number): void;

  stats(): StripedLockStats;
  /** The word of a stripe, and the number of its waiters. Cheaper than {@link inspect}. */
  counts(stripe: number): StripeCounts;
  inspect(): StripeState[];

  /** Records waits for contention profiles. Undefined if the engine cannot record waits. */
  readonly contention: ContentionRecorder | undefined;

  /**
   * Maps keys to stripes so that each key in use has a separate stripe. Undefined if keys are hashed to
   * stripes.
   */
  readonly keys: ExactKeys | undefined;
}

/** The word of a stripe, and the number of acquisitions that wait for the stripe, as far as known. */
export interface StripeCounts {
  readonly word: number;
  readonly waiting: number;
}

/** Creates and opens tables. Each thread has one object of this type for each engine. */
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
