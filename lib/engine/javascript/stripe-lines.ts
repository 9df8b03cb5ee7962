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
 * How stripes pass between threads. All threads of a lock run this code on the same memory; nothing in it blocks.
 *
 * A word is free (0), held, held + QUEUED, or reserved (QUEUED alone). A reserved stripe is free, but only the thread
 * that was woken for it should take it. Waiting threads sleep on one of two integers in the stripe's line: by
 * `Atomics.wait`, or by `Atomics.waitAsync` on an event loop. The host wakes sleepers of one integer in the order in
 * which they fell asleep, for both kinds.
 *
 * | integer      | meaning                                                                         |
 * | ------------ | ------------------------------------------------------------------------------- |
 * | BACK         | counts wakes of recent waiters, which sleep there                               |
 * | FRONT        | the same for waiters that have waited longer than {@link BARGING_PERIOD}          |
 * | RESERVED_AT  | when the stripe was last released while other threads waited                    |
 * | WRITER_AT    | when a writer last announced that it waits                                      |
 * | LASTING_AT   | when a writer without timeout and signal last announced that it waits           |
 * | WRITES_SINCE | when the longest waiting writer started to wait, as far as known; or 0          |
 *
 * ## Order
 *
 * A release wakes the first sleeper of FRONT, and keeps the stripe reserved for it. If FRONT has no sleeper, the
 * release frees the stripe and wakes the first sleeper of BACK. Running threads may then barge before that one wakes
 * up, which gives throughput.
 *
 * This bounds starvation. Newcomers can pass a waiter only during its first millisecond and until its first wake after
 * that. From then on, only waiters ahead of it in FRONT are served before it. A sleeping thread polls after 20 ms, then
 * after twice as long each time, up to a second, and each poll moves it to the end of FRONT. So a waiter is served
 * if, between two of its polls, the stripe is released as often as there are waiters ahead of it.
 *
 * A reader that was granted the stripe wakes the next sleeper. If that is a reader, it does the same, up to the first
 * writer. Readers that arrive while a writer waits also wait. A writer that polled is behind them in FRONT. So a woken
 * reader gives way once to a writer that has waited longer: it wakes the next sleeper instead, and sleeps again, behind
 * the writer. If FRONT has no sleeper, or the reader is woken again, that writer has left or is awake, and is
 * forgotten.
 *
 * ## Why no thread sleeps forever
 *
 * I1  A stripe is taken only by compare-and-swap: from 0; from reserved; or, shared, by adding to a shared word. The
 *     other integers of a line decide only whose turn it is. A wrong value there costs time, not exclusion.
 * I2  Before a waiter sleeps, it reads the integer that it will sleep on, and then sees QUEUED in the word, or sets it.
 * I3  After a thread clears QUEUED, it wakes the first sleeper of FRONT or, if there is none, of BACK. A wake changes
 *     the integer first, so a waiter that read the integer before (I2) does not fall asleep.
 * I4  A woken thread does one of three things. It takes the stripe and keeps QUEUED; a reader then wakes the next sleeper.
 *     Or it sleeps again (I2); if it gave way, it first wakes the next sleeper. Or it leaves, and wakes the next sleeper
 *     instead ({@link StripeLines.relay}).
 *
 * So for every sleeper, either the word has QUEUED, whose removal leads to a wake, or a wake is in progress. A wake is
 * lost only if the woken thread is terminated or busy. For that case sleepers poll; see {@link patience}.
 *
 * ## Remains of dead threads
 *
 * No thread is notified that another was terminated, possibly between any two lines. The host removes sleepers that
 * died. These remain:
 *
 * - A word that the thread took, as exclusive or shared holder, even if its call had not returned. The stripe stays held.
 * - QUEUED: a release then wakes no thread.
 * - A reserved word, if a thread died after it was woken, or before it woke another. Once `patience.reserved` has passed
 *   since the release, any thread may take the stripe. By I1 that is as safe as taking a free one.
 * - WRITER_AT, which keeps readers out, and LASTING_AT, which refuses readers whose thread holds a share. A live writer
 *   renews both at each poll. After twice the longest poll interval they are ignored.
 * - WRITES_SINCE, until a reader has given way without effect.
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
 * Why an acquisition may take a stripe that others also wait for: it was woken at a place, it polls, or the stripe is
 * kept for its thread.
 */
export const POLL = 0;
export const KEPT = -1;
export type Cause = typeof POLL | typeof KEPT | Place;

/** The parts of a waiting acquisition that stripes use. */
export interface Waiting {
  /** When the wait started, by `performance.now()`. */
  readonly since: number;
  /** Whether it has neither a timeout nor a signal. */
  readonly isLasting: boolean;
  /** The start of the wait of the writer that it gave way to, as in WRITES_SINCE; initially 0. */
  gaveWayTo: number;
}

/** Poll intervals of waiters, in milliseconds. Tests make them long, to show that nothing depends on polling. */
export const patience = {
  /** How long a stripe stays reserved for a woken thread. */
  reserved: 20,
  /**
   * A sleeping thread's first interval. Each poll moves the thread to the end of its queue, so the interval doubles.
   */
  shortest: 20,
  longest: 1000,
  /** The interval of a thread's async acquisitions, which keep their places. */
  eventLoop: 50,
};

/** The milliseconds during which running threads may overtake a waiter; `kBargingPeriod` in `native/core/base/sync.h`. */
const BARGING_PERIOD = 1;

const OFFSET = offsetOf(sharedNow);

/**
 * Converts a time of `performance.now()` to a clock that all threads of the process share, in milliseconds modulo 2^32;
 * never 0.
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

/** The place where a waiter sleeps whose wait started at `since`. */
export function placeFor(since: number): Place {
  return performance.now() - since < BARGING_PERIOD ? BACK : FRONT;
}

/**
 * One thread's view of a lock's stripes, and its counted holds, which words do not attribute to threads.
 *
 * A stripe is taken and released by one compare-and-swap. No function is called between that and the record of the
 * hold, so neither a stack overflow nor a `vm` timeout can separate the two.
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
   * Takes a stripe for an acquisition that has just arrived, or polls. A reader must then call {@link wakeReaders}.
   */
  arrive(stripe: number, mode: Mode, cause: Cause): boolean {
    for (;;) {
      const word = this.load(stripe);
      if (!this.#mayTake(stripe, word, mode, cause)) return false;
      if (this.#take(stripe, word, mode, 0)) return true;
    }
  }

  /**
   * Like {@link arrive}, for a waiter. Once it took the stripe it must call {@link endWait}. If false, QUEUED is set
   * (I2).
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

  /** Whether this thread's own hold prevents it from taking the stripe, unless others give up or release. */
  blocksItself(stripe: number, mode: Mode): boolean {
    if (this.isOwn(stripe)) return true;
    if ((this.shares?.[stripe] ?? 0) === 0) return false;
    const word = this.load(stripe);
    if ((word & HOLDER_MASK) === 0) return false;
    if (!admits(word & ~QUEUED, mode, mostHolds(this.limit))) return true;
    // The thread would queue behind a writer that waits for this thread's share. A writer with a timeout or a signal
    // may give up.
    return (word & QUEUED) !== 0 && this.#isRecent(stripe, LASTING_AT, 2 * patience.longest);
  }

  /**
   * Releases one hold; QUEUED stays. Returns true if a waiter may have to be woken. Does nothing if the stripe is not held in
   * this mode, which happens only if foreign code changed its word.
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

  /** Wakes the next waiter for a reserved stripe, or frees the stripe. */
  handOver(stripe: number): void {
    if (!this.#wake(stripe, FRONT)) this.#free(stripe);
  }

  /** Passes on a wake that a waiter will not use (I4). */
  relay(stripe: number): void {
    const word = this.load(stripe);
    if (modeOfWord(word)?.counted === true) this.wakeReaders(stripe);
    else if ((word & HOLDER_MASK) === 0) this.#free(stripe);
  }

  /** Removes a waiter that did not get the stripe. */
  leave(stripe: number, mode: Mode, waiting: Waiting): void {
    if (!mode.counted) this.#outdate(stripe, WRITER_AT);
    this.endWait(stripe, mode, waiting);
    this.relay(stripe);
  }

  /**
   * Ends the wait of an acquisition that got the stripe or leaves. Other waiting writers announce themselves again at
   * their next wake or poll.
   */
  endWait(stripe: number, mode: Mode, { since, isLasting }: Waiting): void {
    if (mode.counted) return;
    if (isLasting) this.#outdate(stripe, LASTING_AT);
    Atomics.compareExchange(this.memory, this.place(stripe, WRITES_SINCE), stamp(since), 0);
  }

  /** Wakes waiting readers of a shared stripe, up to the first writer. If none is left, opens the fast path. */
  wakeReaders(stripe: number): void {
    for (;;) {
      const word = this.load(stripe);
      if ((word & QUEUED) === 0 || modeOfWord(word)?.counted !== true || this.#call(stripe)) return;
      if (!this.#exchange(stripe, word, word & ~QUEUED)) continue;
      // Keeps I3: a thread may have started to wait in between.
      this.#call(stripe);
      return;
    }
  }

  /** Clears QUEUED. Only valid if no thread waits for the stripe. */
  open(stripe: number): void {
    Atomics.and(this.memory, wordIndex(stripe), ~QUEUED);
  }

  /** Wakes all sleepers of a place, because one of them, which cannot be identified, must not consume a wake. */
  wakeAll(stripe: number, place: Place): void {
    const index = this.place(stripe, place);
    Atomics.add(this.memory, index, 1);
    Atomics.notify(this.memory, index);
  }

  /** The index of an integer in a stripe's line. */
  place(stripe: number, place: number): number {
    return wordIndex(stripe) + place;
  }

  #exchange(stripe: number, expected: number, replacement: number): boolean {
    return Atomics.compareExchange(this.memory, wordIndex(stripe), expected, replacement) === expected;
  }

  /** Takes a stripe that {@link #mayTake} allowed, and sets the flags in `queued`. False if its word has changed. */
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
    // Readers share a stripe, but do not pass a writer.
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

  /** Called for a woken reader that could take a stripe with this word. True if it woke the next sleeper instead. */
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

  /** Makes a stamp count as outdated from now on. */
  #outdate(stripe: number, place: number): void {
    Atomics.store(this.memory, this.place(stripe, place), stamp() - 2 * patience.longest - 1);
  }

  /** Whether a stamp is younger than this many milliseconds. */
  #isRecent(stripe: number, place: number, milliseconds: number): boolean {
    const age = (stamp() - Atomics.load(this.memory, this.place(stripe, place))) | 0;
    return age <= milliseconds && age >= -CLOCKS_DIFFER;
  }
}
