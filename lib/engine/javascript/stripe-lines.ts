import { performance } from '../../common/host.js';
import { wordIndex } from '../contract/layout.js';
import { HOLDER_MASK, QUEUED } from '../contract/lock-word.js';
import { modeOfWord, type Mode } from '../contract/mode.js';
import { patience } from './patience.js';
import { CALLED, HANDED, LOOKS, Words, type Cause } from './words.js';

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
 * A reader that waited calls the next, and so on up to the first writer. Readers who come while a writer waits wait, too.
 *
 * ## Why nobody sleeps forever
 *
 * I1  A stripe is taken only by compare-and-swap: from 0; from reserved; or, shared, by adding to a shared word. What else
 *     stands in a line decides whose turn it is, never who holds the stripe: if it is wrong, that costs time, not exclusion.
 * I2  Before a waiter sleeps it reads the integer that it will sleep on, and then sees QUEUED in the word, or sets it.
 * I3  Whoever clears QUEUED calls afterwards: the first of FRONT or, if nobody sleeps there, of BACK. A call changes the
 *     integer before it wakes, so a waiter that has read it before (I2) does not fall asleep.
 * I4  Whoever is called takes the stripe, which keeps QUEUED, and if shared calls the next; or sleeps again (I2); or leaves,
 *     and then calls the next instead ({@link StripeLines.relay}).
 *
 * So for every sleeper there is at any time QUEUED in the word, whose end leads to a call, or a call under way. A call gets
 * lost only if the called thread is terminated, or is busy. That is why sleepers look for themselves, see `patience.ts`.
 *
 * ## What dead threads leave
 *
 * No thread learns that another was terminated, and it may be between any two lines. The host forgets those who died asleep.
 * What else there is of them:
 *
 * - QUEUED: a release that calls nobody.
 * - A reserved word, if a thread died after it was called, or having yet to call. From `patience.reserved` after the release on
 *   whoever comes by may take it. By I1 that is as safe as to take a free one.
 * - WRITER_AT, which keeps readers out. A live writer renews it whenever it looks; after twice the longest time between two
 *   looks it counts for nothing.
 */

/** Places in a stripe's line, in integers from its word. */
const BACK = 1;
const FRONT = 2;
const RESERVED_AT = 3;
const WRITER_AT = 4;
export type Place = typeof BACK | typeof FRONT;

/** Milliseconds: newcomers may pass a waiter for so long. */
const HUNGRY_AFTER = 1;

const [seconds, nanoseconds] = process.hrtime();
const OFFSET = seconds * 1000 + nanoseconds / 1e6 - performance.now();

/** Milliseconds on a clock that all threads of the process share, modulo 2^32. */
function stamp(): number {
  return (performance.now() + OFFSET) | 0;
}

/** The most by which the clocks of two threads differ, in milliseconds. */
const CLOCKS_DIFFER = 1000;

/** The place where one that waits since then sleeps. */
export function placeFor(since: number): Place {
  return performance.now() - since < HUNGRY_AFTER ? BACK : FRONT;
}

/** What a call to a place allows. */
export function causeOf(place: Place): Cause {
  return place === FRONT ? HANDED : CALLED;
}

/** The stripes of a lock as one thread uses them. */
export class StripeLines extends Words {
  /** Takes a stripe for an acquisition that has just come, or looks for itself. A reader is to {@link letReadersIn}. */
  arrive(stripe: number, mode: Mode, cause: Cause): boolean {
    for (;;) {
      const word = this.load(stripe);
      if (!this.#mayTake(stripe, word, mode, cause)) return false;
      if (this.take(stripe, word, mode, 0)) return true;
    }
  }

  /** The same for one that waits. False: QUEUED is set (I2). */
  takeOrQueue(stripe: number, mode: Mode, cause: Cause): boolean {
    if (!mode.counted) this.#stamp(stripe, WRITER_AT);
    for (;;) {
      const word = this.load(stripe);
      if (this.#mayTake(stripe, word, mode, cause)) {
        if (this.take(stripe, word, mode, QUEUED)) return true;
      } else if ((word & QUEUED) !== 0 || this.exchange(stripe, word, word | QUEUED)) {
        return false;
      }
    }
  }

  /** Whether a hold of this thread keeps it from taking the stripe, if nobody else releases. */
  standsInItsOwnWay(stripe: number, mode: Mode): boolean {
    if (this.isOwn(stripe)) return true;
    return (this.shares?.[stripe] ?? 0) > 0 && !this.#mayTake(stripe, this.load(stripe), mode, LOOKS);
  }

  override giveBack(stripe: number, mode: Mode): boolean {
    this.#stamp(stripe, RESERVED_AT);
    return super.giveBack(stripe, mode);
  }

  /** Calls who is to have a reserved stripe, or frees it. */
  handOver(stripe: number): void {
    if (!this.#wake(stripe, FRONT)) this.#free(stripe);
  }

  /** A waiter leaves, or will not follow a call: calls the next instead (I4). */
  relay(stripe: number): void {
    const word = this.load(stripe);
    if (modeOfWord(word)?.counted === true) this.letReadersIn(stripe);
    else if ((word & HOLDER_MASK) === 0) this.#free(stripe);
  }

  /** A writer has given up. Others that wait say so again when they are called. */
  writerLeaves(stripe: number): void {
    Atomics.store(this.memory, this.place(stripe, WRITER_AT), stamp() - 2 * patience.longest - 1);
  }

  /** Readers hold the stripe: calls the next, up to the first writer. If nobody is left, opens the fast path. */
  letReadersIn(stripe: number): void {
    for (;;) {
      const word = this.load(stripe);
      if ((word & QUEUED) === 0 || modeOfWord(word)?.counted !== true || this.#call(stripe)) return;
      if (!this.exchange(stripe, word, word & ~QUEUED)) continue;
      // Keeps I3: somebody may have come to wait in between.
      this.#call(stripe);
      return;
    }
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

  /** Whether an acquisition may take a stripe with this word. */
  #mayTake(stripe: number, word: number, mode: Mode, cause: Cause): boolean {
    if (word === 0) return true;
    if (word === QUEUED) return cause === HANDED || !this.#isOfLate(stripe, RESERVED_AT, patience.reserved);
    if (!this.hasRoom(word, mode)) return false;
    // Readers go in together, but not past a writer.
    return (
      (word & QUEUED) === 0 || cause !== LOOKS || !this.#isOfLate(stripe, WRITER_AT, 2 * patience.longest)
    );
  }

  #free(stripe: number): void {
    this.exchange(stripe, QUEUED, 0);
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

  /** Whether a place was stamped less than so many milliseconds ago. */
  #isOfLate(stripe: number, place: number, milliseconds: number): boolean {
    const age = (stamp() - Atomics.load(this.memory, this.place(stripe, place))) | 0;
    return age <= milliseconds && age >= -CLOCKS_DIFFER;
  }
}
