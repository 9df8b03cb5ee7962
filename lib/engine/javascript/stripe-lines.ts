import { offsetOf } from '../../common/elapsed.js';
import { performance, sharedNow } from '../../common/host.js';
import { STRIPE_SHIFT, wordIndex } from '../contract/layout.js';
import { HOLDER_MASK, QUEUED } from '../contract/lock-word.js';
import {
  admits,
  firstWord,
  hasPermits,
  modeOfWord,
  mostHolds,
  namesHolder,
  type Mode,
} from '../contract/mode.js';

/*
 * The rules by which stripes pass between threads. All threads of a lock run this code on the same memory. No
 * function here blocks.
 *
 * A word is free (0), held, held with the flag QUEUED, or reserved (QUEUED alone). A reserved stripe is free,
 * but only the thread that was woken for the stripe should take it. A reader is an acquisition in a mode with
 * counted holders (shared, or a permit). A writer is an exclusive acquisition.
 *
 * Each stripe has a line of integers in memory. The first integer of the line is the word. A waiting thread
 * sleeps on the integer BACK or FRONT of the line: either by `Atomics.wait`, or by `Atomics.waitAsync` on its
 * event loop. The host wakes the sleepers of an integer in the order in which they fell asleep, regardless of
 * which of the two functions they called.
 *
 * | integer      | meaning                                                                         |
 * | ------------ | ------------------------------------------------------------------------------- |
 * | BACK         | counts the wakes of recent waiters, which sleep on this integer                 |
 * | FRONT        | counts the wakes of waiters that have waited longer than {@link BARGING_PERIOD} |
 * | RESERVED_AT  | the time of the last release, when the reservation of a reserved stripe started |
 * | WRITER_AT    | the time when a waiting writer last announced itself                            |
 * | LASTING_AT   | the same, for a writer with neither a timeout nor a signal                      |
 * | WRITES_SINCE | the time when the longest waiting writer started to wait; 0 if not known        |
 *
 * ## Order
 *
 * A release wakes the first sleeper of FRONT, and keeps the stripe reserved for that thread. If FRONT has no
 * sleeper, the release frees the stripe and wakes the first sleeper of BACK. Running threads may take the
 * stripe before this sleeper wakes up (barging), which gives high throughput.
 *
 * Starvation is limited. New acquisitions can pass a waiter during its first millisecond, and after that only
 * until the waiter's next wake. After that wake, the waiter sleeps on FRONT, where only the waiters ahead of
 * it are served before it. A sleeping thread polls after 20 ms. The poll interval then doubles each time, up
 * to a second. Each poll moves the thread to the end of FRONT. So a waiter behind n others is served if the
 * stripe is released more than n times between two of the waiter's polls.
 *
 * A reader that gets the stripe wakes the next sleeper. If the next sleeper is a reader, this reader does the
 * same, and so on up to the first writer. While a writer waits, readers that arrive also wait. If the writer
 * polls, the poll moves the writer behind these readers in FRONT. So a woken reader gives way once to a
 * writer that has waited longer: the reader wakes the next sleeper and sleeps again, now behind the writer.
 * If FRONT has no sleeper, or if this reader is woken again, then the writer has left or is awake, and the
 * reader clears WRITES_SINCE.
 *
 * ## Why no thread sleeps forever
 *
 * I1  A stripe is taken only by a compare-and-swap of its word: from 0, from reserved, or, for a reader, by
 *     adding one to a shared word. The other integers of a line decide only whose turn it is. A wrong value
 *     in one of them costs time, but does not break exclusion.
 * I2  Before a waiter sleeps, it reads the integer on which it will sleep. After this read, it finds QUEUED
 *     set in the word, or sets QUEUED.
 * I3  After a thread clears QUEUED, it wakes the first sleeper of FRONT or, if there is none, of BACK. Before
 *     the wake, the thread changes the sleeper's integer. So a waiter that has read the old value (I2) does
 *     not fall asleep.
 * I4  A woken thread takes the stripe, sleeps again, or leaves. If it takes the stripe, it keeps QUEUED; a
 *     reader then also wakes the next sleeper. If it sleeps again (I2) to give way, it first wakes the next
 *     sleeper. If it leaves, it wakes the next sleeper instead ({@link StripeLines.relay}).
 *
 * So while a thread sleeps, the word has QUEUED, or a wake is in progress. If the word has QUEUED, the thread
 * that clears QUEUED wakes a sleeper. A wake is lost only if the woken thread is terminated or busy. For this
 * case, sleepers poll: see {@link patience}.
 *
 * ## Remains of dead threads
 *
 * A thread may be terminated between any two lines, and no other thread is notified. The host removes the
 * dead thread from the sleepers. The dead thread may leave the following state behind:
 *
 * - A held word, even if the call that took the stripe had not returned. The stripe stays held.
 * - QUEUED without a waiter. The next release then wakes no thread.
 * - A reserved word, if a thread died after it was woken, or before it woke another thread. Once
 *   `patience.reserved` has passed since the release, any thread may take the stripe. By I1 that is as safe
 *   as taking a free stripe.
 * - WRITER_AT, which makes readers wait, and LASTING_AT, because of which a reader is refused if its thread
 *   already has a shared hold. A live writer renews both stamps at each poll. A stamp that is older than
 *   twice the longest poll interval is ignored.
 * - WRITES_SINCE. A reader that has given way to the dead writer clears it.
 */

/** Offsets in a stripe's line, in integers from its word. */
export const BACK = 1;
export const FRONT = 2;
const RESERVED_AT = 3;
const WRITER_AT = 4;
const LASTING_AT = 5;
const WRITES_SINCE = 6;
export type Place = typeof BACK | typeof FRONT;

/**
 * The reason why an acquisition tries to take a stripe. POLL: the acquisition arrives, or polls. KEPT: the
 * stripe is reserved for the acquisition's thread. BACK or FRONT: the acquisition was woken on this integer.
 */
export const POLL = 0;
export const KEPT = -1;
export type Cause = typeof POLL | typeof KEPT | Place;

/** The parts of a waiting acquisition that this file uses. */
export interface Waiting {
  /** When the wait started, by `performance.now()`. */
  readonly since: number;
  /** Whether the acquisition has neither a timeout nor a signal, so that it waits until it is granted. */
  readonly isLasting: boolean;
  /**
   * Identifies the last writer to which this acquisition gave way, by the value of WRITES_SINCE; initially 0.
   */
  gaveWayTo: number;
}

/**
 * Poll intervals of waiters, in milliseconds. Tests make the intervals long, to show that waiters are also
 * served without polling.
 */
export const patience = {
  /** The time for which a stripe stays reserved for a woken thread. */
  reserved: 20,
  /**
   * The first interval of a sleeping thread. Each poll moves the thread to the end of FRONT, so the interval
   * doubles with each poll, up to `longest`.
   */
  shortest: 20,
  longest: 1000,
  /**
   * The interval for a thread's async acquisitions. A poll does not change their places among the sleepers.
   */
  eventLoop: 50,
};

/**
 * For this many milliseconds, running threads may overtake a new waiter. The same as `kBargingPeriod` in
 * `native/core/base/sync.h`.
 */
const BARGING_PERIOD = 1;

const OFFSET = offsetOf(sharedNow);

/**
 * Converts a time of `performance.now()` to a clock that all threads of the process share. The result is in
 * milliseconds modulo 2^32, and is never 0.
 */
function stamp(time = performance.now()): number {
  return (time - OFFSET) | 0 || 1;
}

/** The maximum difference between the clocks of two threads, in milliseconds. */
const CLOCKS_DIFFER = 1000;

/** Whether stamp `a` is earlier than stamp `b`. */
function isBefore(a: number, b: number): boolean {
  return ((a - b) | 0) < 0;
}

/** The integer on which a waiter sleeps if its wait started at `since`. */
export function placeFor(since: number): Place {
  return performance.now() - since < BARGING_PERIOD ? BACK : FRONT;
}

/**
 * One thread's view of a lock's stripes. It also counts the thread's shared holds and permits, because a word
 * shows only the number of holders, not which threads they are.
 *
 * A stripe is taken or released by one compare-and-swap. No function is called between the compare-and-swap
 * and the count of the hold. So neither a stack overflow nor a `vm` timeout can separate the two.
 */
export class StripeLines {
  /** The whole memory of the lock. */
  readonly memory: Int32Array;
  readonly slot: number;
  readonly limit: number;
  /** See `LockTable.shares`. */
  shares: Int32Array | undefined = undefined;

  constructor(memory: Int32Array, slot: number, limit: number) {
    this.memory = memory;
    this.slot = slot;
    this.limit = limit;
  }

  openShares(): Int32Array {
    return (this.shares ??= new Int32Array((this.memory.length - wordIndex(0)) >> STRIPE_SHIFT));
  }

  load(stripe: number): number {
    return Atomics.load(this.memory, wordIndex(stripe));
  }

  /** Whether this thread holds the stripe exclusively. */
  isOwn(stripe: number): boolean {
    const word = this.load(stripe);
    return namesHolder(word) && (word & HOLDER_MASK) === this.slot;
  }

  /** The ids of the threads that hold a stripe, as far as known. */
  holders(stripe: number): number[] {
    const word = this.load(stripe);
    if (modeOfWord(word) === undefined) return [];
    if (namesHolder(word)) return [(word & HOLDER_MASK) - 1];
    return (this.shares?.[stripe] ?? 0) > 0 ? [this.slot - 1] : [];
  }

  /**
   * Tries to take a stripe for an acquisition that has just arrived or that polls. A reader that gets the
   * stripe must then call {@link wakeReaders}.
   */
  arrive(stripe: number, mode: Mode, cause: Cause): boolean {
    for (;;) {
      const word = this.load(stripe);
      if (!this.#mayTake(stripe, word, mode, cause)) return false;
      if (this.#take(stripe, word, mode, 0)) return true;
    }
  }

  /**
   * Like {@link arrive}, but for a waiting acquisition. If the result is true, the acquisition must call
   * {@link endWait}. If the result is false, QUEUED is set (preserves I2).
   */
  takeOrQueue(stripe: number, mode: Mode, cause: Cause, waiting: Waiting): boolean {
    if (!mode.counted) this.#announceWriter(stripe, waiting);
    for (;;) {
      const word = this.load(stripe);
      if (this.#mayTake(stripe, word, mode, cause)) {
        if (cause === FRONT && mode.counted && this.#givesWay(stripe, word, waiting)) return false;
        if (this.#take(stripe, word, mode, QUEUED)) return true;
      } else if ((word & QUEUED) !== 0 || this.#exchange(stripe, word, word | QUEUED)) {
        return false;
      }
    }
  }

  /**
   * Whether this thread would wait for itself, because one of its own holds prevents it from taking the
   * stripe in this mode.
   */
  blocksItself(stripe: number, mode: Mode): boolean {
    if (this.isOwn(stripe)) return true;
    if ((this.shares?.[stripe] ?? 0) === 0) return false;
    const word = this.load(stripe);
    if ((word & HOLDER_MASK) === 0) return false;
    if (!admits(word & ~QUEUED, mode, mostHolds(this.limit))) return true;
    // The thread would wait behind a writer, and the writer waits for this thread's shared hold. Only a
    // writer with neither a timeout nor a signal counts, because any other writer may give up.
    return (word & QUEUED) !== 0 && this.#isRecent(stripe, LASTING_AT, 2 * patience.longest);
  }

  /**
   * Releases one hold, but does not clear QUEUED. Returns true if a waiter may have to be woken. If this
   * thread does not hold the stripe in this mode, changes nothing and returns false. That happens only if
   * foreign code has changed the word, or if a release is repeated.
   */
  release(stripe: number, mode: Mode): boolean {
    this.#stamp(stripe, RESERVED_AT);
    const index = wordIndex(stripe);
    const shares = mode.counted ? this.openShares() : undefined;
    for (;;) {
      const word = Atomics.load(this.memory, index);
      const held = word & ~QUEUED;
      if (
        shares === undefined
          ? held !== this.slot
          : (held & ~HOLDER_MASK) !== mode.joins || shares[stripe]! <= 0
      )
        return false;
      const last = shares === undefined || (word & HOLDER_MASK) === 1;
      const next = last ? word & QUEUED : word - 1;
      if (Atomics.compareExchange(this.memory, index, word, next) !== word) continue;
      if (shares !== undefined) shares[stripe]!--;
      return (word & QUEUED) !== 0 && (last || hasPermits(this.limit));
    }
  }

  /**
   * Passes a released stripe on. Wakes the first sleeper of FRONT, for which the stripe stays reserved. If
   * FRONT has no sleeper, frees the stripe and wakes the first sleeper of BACK.
   */
  handOver(stripe: number): void {
    if (!this.#wake(stripe, FRONT)) this.#free(stripe);
  }

  /** Passes a wake on to the next waiter, because the woken waiter does not use it (preserves I4). */
  relay(stripe: number): void {
    const word = this.load(stripe);
    if (modeOfWord(word)?.counted === true) this.wakeReaders(stripe);
    else if ((word & HOLDER_MASK) === 0) this.#free(stripe);
  }

  /** Ends the wait of an acquisition that did not get the stripe. */
  leave(stripe: number, mode: Mode, waiting: Waiting): void {
    if (!mode.counted) this.#outdate(stripe, WRITER_AT);
    this.endWait(stripe, mode, waiting);
    this.relay(stripe);
  }

  /**
   * Clears the announcement of a writer that got the stripe or leaves. Other waiting writers announce
   * themselves again when they are woken, and when they poll.
   */
  endWait(stripe: number, mode: Mode, { since, isLasting }: Waiting): void {
    if (mode.counted) return;
    if (isLasting) this.#outdate(stripe, LASTING_AT);
    Atomics.compareExchange(this.memory, this.place(stripe, WRITES_SINCE), stamp(since), 0);
  }

  /**
   * Wakes the next waiter of a stripe that readers hold. If the woken waiter is a reader, it calls this
   * function again. If no waiter is left, clears QUEUED, so that the fast path can use the stripe again.
   */
  wakeReaders(stripe: number): void {
    for (;;) {
      const word = this.load(stripe);
      if ((word & QUEUED) === 0 || modeOfWord(word)?.counted !== true || this.#call(stripe)) return;
      if (!this.#exchange(stripe, word, word & ~QUEUED)) continue;
      // A thread may have started to wait in between (preserves I3).
      this.#call(stripe);
      return;
    }
  }

  /** Clears QUEUED. May be called only if no thread waits for the stripe. */
  open(stripe: number): void {
    Atomics.and(this.memory, wordIndex(stripe), ~QUEUED);
  }

  /**
   * Wakes all sleepers of a place, because the host cannot wake one particular sleeper. The caller ends the
   * sleep of one queue in this way; otherwise that queue would consume a wake.
   */
  wakeAll(stripe: number, place: Place): void {
    const index = this.place(stripe, place);
    Atomics.add(this.memory, index, 1);
    Atomics.notify(this.memory, index);
  }

  /** The index of an integer in a stripe's line. `place`: the offset of the integer from the word. */
  place(stripe: number, place: number): number {
    return wordIndex(stripe) + place;
  }

  #exchange(stripe: number, expected: number, replacement: number): boolean {
    return Atomics.compareExchange(this.memory, wordIndex(stripe), expected, replacement) === expected;
  }

  /**
   * Takes a stripe after {@link #mayTake} has allowed it, and sets the flags in `queued`. Returns false if
   * the stripe's word is no longer `word`.
   */
  #take(stripe: number, word: number, mode: Mode, queued: number): boolean {
    const shares = mode.counted ? this.openShares() : undefined;
    const next = (word & ~QUEUED) === 0 ? word | firstWord(mode, this.slot) : word + 1;
    if (Atomics.compareExchange(this.memory, wordIndex(stripe), word, next | queued) !== word) return false;
    if (shares !== undefined) shares[stripe]!++;
    return true;
  }

  /** Whether an acquisition may take a stripe with this word. */
  #mayTake(stripe: number, word: number, mode: Mode, cause: Cause): boolean {
    if (word === 0) return true;
    if (word === QUEUED)
      return cause === FRONT || cause === KEPT || !this.#isRecent(stripe, RESERVED_AT, patience.reserved);
    if (!admits(word & ~QUEUED, mode, mostHolds(this.limit))) return false;
    // Readers share a stripe. But a reader that arrives or polls does not pass a waiting writer.
    return (
      (word & QUEUED) === 0 || cause !== POLL || !this.#isRecent(stripe, WRITER_AT, 2 * patience.longest)
    );
  }

  #announceWriter(stripe: number, { since, isLasting }: Waiting): void {
    this.#stamp(stripe, WRITER_AT);
    if (isLasting) this.#stamp(stripe, LASTING_AT);
    const index = this.place(stripe, WRITES_SINCE);
    const longest = Atomics.load(this.memory, index);
    const mine = stamp(since);
    if (longest === 0 || isBefore(mine, longest)) Atomics.store(this.memory, index, mine);
  }

  /**
   * Decides whether a woken reader gives way to a writer. `word` is the stripe's word, which would let the
   * reader take the stripe. If the result is true, the next sleeper was woken instead.
   */
  #givesWay(stripe: number, word: number, waiting: Waiting): boolean {
    const index = this.place(stripe, WRITES_SINCE);
    const writer = Atomics.load(this.memory, index);
    if ((word & QUEUED) === 0 || writer === 0 || !isBefore(writer, stamp(waiting.since))) return false;
    if (waiting.gaveWayTo !== writer && this.#wake(stripe, FRONT)) {
      waiting.gaveWayTo = writer;
      return true;
    }
    Atomics.compareExchange(this.memory, index, writer, 0);
    return false;
  }

  #free(stripe: number): void {
    this.#exchange(stripe, QUEUED, 0);
    this.#call(stripe);
  }

  #call(stripe: number): boolean {
    return this.#wake(stripe, FRONT) || this.#wake(stripe, BACK);
  }

  #wake(stripe: number, place: Place): boolean {
    const index = this.place(stripe, place);
    Atomics.add(this.memory, index, 1);
    return Atomics.notify(this.memory, index, 1) > 0;
  }

  #stamp(stripe: number, place: number): void {
    Atomics.store(this.memory, this.place(stripe, place), stamp());
  }

  /** Sets a stamp to a time so long ago that {@link #isRecent} ignores the stamp. */
  #outdate(stripe: number, place: number): void {
    Atomics.store(this.memory, this.place(stripe, place), stamp() - 2 * patience.longest - 1);
  }

  /** Whether a stamp is at most this many milliseconds old. */
  #isRecent(stripe: number, place: number, milliseconds: number): boolean {
    const age = (stamp() - Atomics.load(this.memory, this.place(stripe, place))) | 0;
    return age <= milliseconds && age >= -CLOCKS_DIFFER;
  }
}
