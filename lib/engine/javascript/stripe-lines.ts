import { performance } from '../../common/host.js';
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
 * A word is free (0), held, held + QUEUED, or reserved (QUEUED alone): free, but for who was called. Threads that wait sleep on
 * one of two integers of the stripe's line, by `Atomics.wait`, or by `Atomics.waitAsync` if they have an event loop. The host
 * wakes those who sleep on an integer in the order in which they fell asleep, both kinds alike.
 *
 * | in a line   | meaning                                                                     |
 * | ----------- | --------------------------------------------------------------------------- |
 * | BACK        | counts calls to those who sleep there: they have just come                  |
 * | FRONT       | the same for those who have waited for longer than {@link HUNGRY_AFTER}     |
 * | RESERVED_AT | when the stripe was last given back by a holder that others waited for      |
 * | WRITER_AT   | when a writer last said that it waits                                       |
 * | LASTING_AT  | when a writer that never gives up last said that it waits                   |
 * | WRITES_SINCE| since when the writer waits that has waited longest, as far as known; or 0  |
 *
 * ## Order
 *
 * A release calls the first of FRONT, and keeps the stripe reserved for it. If nobody sleeps there, it frees the stripe and
 * calls the first of BACK, which others may come before while it wakes up: threads that run beat one that must be woken, and this
 * gives throughput. So the bound of starvation: newcomers pass a waiter in its first millisecond, and until it is woken for the
 * first time after that. From then on only those pass it that sleep in FRONT before it. A sleeping thread wakes to look for
 * itself after 20 ms, and after twice as long each time, up to a second, and then goes behind the others in FRONT. So it is
 * served when between two of its looks the stripe is given back as often as threads wait before it.
 *
 * A reader that waited calls the next, and so on up to the first writer. Readers who come while a writer waits wait, too. A writer
 * that has looked for itself is behind them then. So a reader that is called gives way once to a writer that has waited longer:
 * it calls the next instead, and sleeps again, behind the writer. If nobody sleeps in FRONT, or it is called once more, that writer
 * has ended or is awake, and is forgotten.
 *
 * ## Why nobody sleeps forever
 *
 * I1  A stripe is taken only by compare-and-swap: from 0; from reserved; or, shared, by adding to a shared word. What else
 *     stands in a line decides whose turn it is, never who holds the stripe: if it is wrong, that costs time, not exclusion.
 * I2  Before a waiter sleeps it reads the integer that it will sleep on, and then sees QUEUED in the word, or sets it.
 * I3  Whoever clears QUEUED calls afterwards: the first of FRONT or, if nobody sleeps there, of BACK. A call changes the
 *     integer before it wakes, so a waiter that has read it before (I2) does not fall asleep.
 * I4  Whoever is called takes the stripe, which keeps QUEUED, and if shared calls the next; or sleeps again (I2), after a call of
 *     the next if it gave way; or leaves, and then calls the next instead ({@link StripeLines.relay}).
 *
 * So for every sleeper there is at any time QUEUED in the word, whose end leads to a call, or a call under way. A call gets
 * lost only if the called thread is terminated, or is busy. That is why sleepers look for themselves, see {@link patience}.
 *
 * ## What dead threads leave
 *
 * No thread learns that another was terminated, and it may be between any two lines. The host forgets those who died asleep.
 * What else there is of them:
 *
 * - A word that it took, as holder or as one of the shared holders, even if its call had not returned. The stripe stays held.
 * - QUEUED: a release that calls nobody.
 * - A reserved word, if a thread died after it was called, or having yet to call. From `patience.reserved` after the release on
 *   whoever comes by may take it. By I1 that is as safe as to take a free one.
 * - WRITER_AT, which keeps readers out, and LASTING_AT, which has them refused. A live writer renews them whenever it looks; after
 *   twice the longest time between two looks they count for nothing.
 * - WRITES_SINCE, until a reader has given way in vain.
 */

/** Places in a stripe's line, in integers from its word. */
export const BACK = 1;
export const FRONT = 2;
const RESERVED_AT = 3;
const WRITER_AT = 4;
const LASTING_AT = 5;
const WRITES_SINCE = 6;
export type Place = typeof BACK | typeof FRONT;

/**
 * Why an acquisition may take a stripe that others wait for, too: it was called to a place, or looks for itself, or the stripe is
 * kept for its thread.
 */
export const LOOKS = 0;
export const KEPT = -1;
export type Cause = typeof LOOKS | typeof KEPT | Place;

/** An acquisition that waits, as stripes see it. */
export interface Waiting {
  /** Since when, on the clock of `performance.now()`. */
  readonly since: number;
  /** It has neither a timeout nor a signal. */
  readonly isLasting: boolean;
  /** Since when the writer waited to which it has given way, as in WRITES_SINCE. At first 0. */
  gaveWayTo: number;
}

/**
 * How long a waiter relies on being called before it looks for itself, in milliseconds. Tests make these times long, to see
 * that nothing depends on them.
 */
export const patience = {
  /** A stripe stays reserved for who was called. */
  reserved: 20,
  /** A sleeping thread's first time. A thread that looks goes back to the end of its queue; so each is twice as long. */
  shortest: 20,
  longest: 1000,
  /** A thread's async acquisitions, which keep their places. */
  eventLoop: 50,
};

/** Milliseconds: newcomers may pass a waiter for so long. */
const HUNGRY_AFTER = 1;

const [seconds, nanoseconds] = process.hrtime();
const OFFSET = seconds * 1000 + nanoseconds / 1e6 - performance.now();

/** A time of `performance.now()` on a clock that all threads of the process share, in milliseconds modulo 2^32; never 0. */
function stamp(time = performance.now()): number {
  return (time + OFFSET) | 0 || 1;
}

/** The most by which the clocks of two threads differ, in milliseconds. */
const CLOCKS_DIFFER = 1000;

/** Whether a stamp is earlier than another one. */
function isBefore(a: number, b: number): boolean {
  return ((a - b) | 0) < 0;
}

/** The place where one that waits since then sleeps. */
export function placeFor(since: number): Place {
  return performance.now() - since < HUNGRY_AFTER ? BACK : FRONT;
}

/**
 * The stripes of a lock as one thread uses them, and its holds that words only count.
 *
 * A stripe is taken and given back by one compare-and-swap. From that to the note of the hold no function is called, so that
 * neither a stack overflow nor the end of a `vm` timeout comes between the two.
 */
export class StripeLines {
  /** All of the lock's memory. */
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

  /** Held exclusively by this thread. */
  isOwn(stripe: number): boolean {
    const word = this.load(stripe);
    return namesHolder(word) && (word & HOLDER_MASK) === this.slot;
  }

  /** Ids of the threads that hold a stripe, as far as known. */
  holders(stripe: number): number[] {
    const word = this.load(stripe);
    if (modeOfWord(word) === undefined) return [];
    if (namesHolder(word)) return [(word & HOLDER_MASK) - 1];
    return (this.shares?.[stripe] ?? 0) > 0 ? [this.slot - 1] : [];
  }

  /** Takes a stripe for an acquisition that has just come, or looks for itself. A reader is to {@link letReadersIn}. */
  arrive(stripe: number, mode: Mode, cause: Cause): boolean {
    for (;;) {
      const word = this.load(stripe);
      if (!this.#mayTake(stripe, word, mode, cause)) return false;
      if (this.#take(stripe, word, mode, 0)) return true;
    }
  }

  /** The same for one that waits, and is to {@link endWait} if it took the stripe. False: QUEUED is set (I2). */
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

  /** Whether a hold of this thread keeps it from taking the stripe, until others give up or release at the earliest. */
  standsInItsOwnWay(stripe: number, mode: Mode): boolean {
    if (this.isOwn(stripe)) return true;
    if ((this.shares?.[stripe] ?? 0) === 0) return false;
    const word = this.load(stripe);
    if ((word & HOLDER_MASK) === 0) return false;
    if (!admits(word & ~QUEUED, mode, mostHolds(this.limit))) return true;
    // Behind a writer that waits for this thread's share: one with a timeout or a signal may give up.
    return (word & QUEUED) !== 0 && this.#isOfLate(stripe, LASTING_AT, 2 * patience.longest);
  }

  /**
   * Gives back one hold; QUEUED stays. True: somebody may wait for that. Does nothing where the stripe is not held so, which
   * is where somebody scribbled on its word.
   */
  giveBack(stripe: number, mode: Mode): boolean {
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

  /** Calls who is to have a reserved stripe, or frees it. */
  handOver(stripe: number): void {
    if (!this.#wake(stripe, FRONT)) this.#free(stripe);
  }

  /** A waiter will not follow a call: calls the next instead (I4). */
  relay(stripe: number): void {
    const word = this.load(stripe);
    if (modeOfWord(word)?.counted === true) this.letReadersIn(stripe);
    else if ((word & HOLDER_MASK) === 0) this.#free(stripe);
  }

  /** A waiter leaves without the stripe. */
  leave(stripe: number, mode: Mode, waiting: Waiting): void {
    if (!mode.counted) this.#outdate(stripe, WRITER_AT);
    this.endWait(stripe, mode, waiting);
    this.relay(stripe);
  }

  /** A waiter has the stripe, or leaves. Other writers that wait say so again when they are called, or look. */
  endWait(stripe: number, mode: Mode, { since, isLasting }: Waiting): void {
    if (mode.counted) return;
    if (isLasting) this.#outdate(stripe, LASTING_AT);
    Atomics.compareExchange(this.memory, this.place(stripe, WRITES_SINCE), stamp(since), 0);
  }

  /** Readers hold the stripe: calls the next, up to the first writer. If nobody is left, opens the fast path. */
  letReadersIn(stripe: number): void {
    for (;;) {
      const word = this.load(stripe);
      if ((word & QUEUED) === 0 || modeOfWord(word)?.counted !== true || this.#call(stripe)) return;
      if (!this.#exchange(stripe, word, word & ~QUEUED)) continue;
      // Keeps I3: somebody may have come to wait in between.
      this.#call(stripe);
      return;
    }
  }

  /** Nobody waits, of this thread or another. */
  open(stripe: number): void {
    Atomics.and(this.memory, wordIndex(stripe), ~QUEUED);
  }

  /** Calls all who sleep in a place: one of them is not to follow a call. */
  wakeAll(stripe: number, place: Place): void {
    const index = this.place(stripe, place);
    Atomics.add(this.memory, index, 1);
    Atomics.notify(this.memory, index);
  }

  /** The index of an integer of a stripe's line. */
  place(stripe: number, place: number): number {
    return wordIndex(stripe) + place;
  }

  #exchange(stripe: number, expected: number, replacement: number): boolean {
    return Atomics.compareExchange(this.memory, wordIndex(stripe), expected, replacement) === expected;
  }

  /** Takes a stripe that {@link #mayTake}, and sets the flags `queued`. False: its word has changed. */
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
      return cause === FRONT || cause === KEPT || !this.#isOfLate(stripe, RESERVED_AT, patience.reserved);
    if (!admits(word & ~QUEUED, mode, mostHolds(this.limit))) return false;
    // Readers go in together, but not past a writer.
    return (
      (word & QUEUED) === 0 || cause !== LOOKS || !this.#isOfLate(stripe, WRITER_AT, 2 * patience.longest)
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

  /** A reader was called, and may take a stripe with this word. True: it has called the next one instead. */
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

  /** From now on a place does not count as stamped of late, however long that is. */
  #outdate(stripe: number, place: number): void {
    Atomics.store(this.memory, this.place(stripe, place), stamp() - 2 * patience.longest - 1);
  }

  /** Whether a place was stamped less than so many milliseconds ago. */
  #isOfLate(stripe: number, place: number, milliseconds: number): boolean {
    const age = (stamp() - Atomics.load(this.memory, this.place(stripe, place))) | 0;
    return age <= milliseconds && age >= -CLOCKS_DIFFER;
  }
}
