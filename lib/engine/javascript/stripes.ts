/**
 * How stripes pass from one holder to the next: by their words (`stripe-words.ts`) and by those who wait in their lanes
 * (`lanes.ts`). All threads of a lock run this code on the same memory; nothing in it blocks.
 *
 * ## How a stripe passes on
 *
 * The word is one of: free (0), held, held + QUEUED, reserved (QUEUED alone). A waiter that finds a stripe held sets QUEUED
 * and sleeps; so the holder's release comes here. It sets the word to 0 and calls the first sleeper of each lane
 * ({@link Lanes.callHeads}). Until that one is awake, others may come by and take the stripe: threads that run beat one
 * that must be woken, and this gives throughput. If that happens, the sleeper puts its claim, and the next release reserves
 * the stripe for it ({@link Stripes.release}): nobody else takes it. So once called, a waiter is passed by those who come
 * while it wakes up, and then by one waiter of the other lane at most (TURN).
 *
 * A reader that waited lets the next in, and so on, up to the first writer. Readers who come while QUEUED is set wait. So
 * readers and writers take turns. A reader that is called joins other readers only if no writer claims or sleeps in the
 * other lane; one that was not called, but looks for itself, only if none sleeps in its own, either.
 *
 * ## Why nobody sleeps forever
 *
 * I1  A stripe is taken only by compare-and-swap: from 0; from reserved; or, shared, by adding to a shared word.
 *     Claims and offers decide whose turn it is, never who holds it: a stale one costs time, not exclusion.
 * I2  Before a waiter sleeps it (a) counts itself or puts its claim, (b) reads what it will sleep on, (c) sets
 *     QUEUED by `Atomics.or`, and (d) takes the stripe instead if it was free. Atomics are in one order for all
 *     threads, so whoever clears QUEUED after (c) sees (a), and its call changes or follows (b).
 * I3  Whoever clears QUEUED looks at both lanes afterwards and calls the head of each: its claim, or, where there
 *     is none, its first sleeper. (An offer that stands is such a call.)
 * I4  Whoever is called takes the stripe, which keeps QUEUED, or, if shared, calls on (I3); or sleeps again (I2);
 *     or leaves, and then calls the next instead ({@link Stripes.relay}).
 * I5  Somebody acts on a reserved word: the head that was offered it; or, for an instant, the thread that reserved it
 *     and has yet to offer it, or to take it (I2 d). Withdrawing a claim that was offered undoes the reservation.
 *
 * By I2 and I3 there is for every sleeping waiter at any time either QUEUED in the word, whose end leads to a call,
 * or a call under way. A call gets lost only if the called thread is terminated, or stays busy or blocked elsewhere.
 * That is why sleepers look again now and then: see {@link Stripes.refresh}.
 *
 * ## What dead threads leave
 *
 * No thread learns that another was terminated, and it may be between any two lines. It leaves:
 *
 * - A count in SLEEPERS or WRITERS that is too high: calls that nobody follows. The word becomes free all the same.
 * - A claim. The release that offers it wakes nobody: then the head that DOZES is dead, or so close to its sleep that it
 *   sees the change. So {@link Stripes.release} voids the claim, frees the word, and calls those behind (I3).
 * - A reserved word: it was called, or died awake, or between (c) and (d) of I2, or having yet to offer what it had
 *   reserved. A reservation lasts for `patience.head` after the offer, and then whoever comes by may take the word
 *   ({@link Stripes.intrude}). By I1 that is as safe as to take a free one, and it keeps QUEUED, so its release calls (I3).
 *   A head that was just slow finds the stripe held, puts its claim back and waits on (I4).
 * - QUEUED in a shared word, and a writer that keeps readers out. A live one says that it is there each time it looks for
 *   itself (WRITER_AT); one that has not for twice the longest of these times counts for nothing.
 *
 * ## What fails
 *
 * I8  From a change of the word to the note of who holds the stripe no function is called, and no loop turned: there is
 *     no place for a stack overflow or for the end of a `vm` timeout. What follows the note are calls to others (I3).
 *     If these fail because of a stack overflow, a microtask makes them ({@link makeRoom}).
 */
import { defer } from '../../common/host.js';
import { wordIndex } from '../contract/layout.js';
import { HOLDER_MASK, QUEUED } from '../contract/lock-word.js';
import { namesHolder, type Mode } from '../contract/mode.js';
import { makeRoom } from './host.js';
import { type Cause, isWriter, type Lane, Lanes, LOOKS, SYNC_LANE, WAS_OFFERED } from './lanes.js';
import { isShared, StripeWords } from './stripe-words.js';

/** The stripes of a lock as one thread uses them. */
export class Stripes {
  readonly words: StripeWords;
  readonly lanes: Lanes;

  constructor(memory: Int32Array, slot: number) {
    this.words = new StripeWords(memory, slot);
    this.lanes = new Lanes(memory, slot);
  }

  /** Whether {@link intrude} would take the stripe now. Changes nothing. */
  isOpen(stripe: number, mode: Mode): boolean {
    return this.#admitsNewcomer(stripe, this.words.load(stripe), mode);
  }

  /**
   * For an acquisition that has just come: takes the stripe if it is free or its holders admit one more, even if it is kept
   * for others, where these cannot be alive.
   */
  intrude(stripe: number, mode: Mode): boolean {
    const { words } = this;
    for (;;) {
      const word = words.load(stripe);
      if (!this.#admitsNewcomer(stripe, word, mode)) return false;
      if (words.take(stripe, word, mode, 0)) return true;
    }
  }

  /** Takes a stripe for a waiter in a lane. */
  takeCalled(stripe: number, mode: Mode, lane: Lane, cause: Cause): boolean {
    const { words } = this;
    for (;;) {
      const word = words.load(stripe);
      if (!this.#admitsCalled(stripe, word, mode, lane, cause)) return false;
      const queued = word === 0 ? QUEUED : 0;
      if (words.take(stripe, word, mode, queued)) return true;
    }
  }

  /** I2 (c) and (d). True: taken. False: it is held, or reserved, and QUEUED is set. */
  announce(stripe: number, mode: Mode): boolean {
    const { words } = this;
    const index = wordIndex(stripe);
    const writer = isWriter(mode);
    if (writer) this.lanes.writerWaits(stripe);
    for (;;) {
      if (!writer && words.arrive(stripe, mode)) return true;
      const word = Atomics.or(words.memory, index, QUEUED);
      if ((word & QUEUED) !== 0 || !words.canTake(word, mode)) return false;
      // If it was free, it is reserved by this thread now, which keeps I5 by taking it.
      if (words.take(stripe, word | QUEUED, mode, 0)) return true;
      if (word !== 0) return false;
    }
  }

  /** To be called by a waiter that has taken a stripe: a reader lets in who may come in, too (I4). */
  entered(stripe: number, mode: Mode): void {
    if (!isWriter(mode)) this.#letReadersIn(stripe);
  }

  /** Gives a stripe back, this thread's share in it included. Where it throws, nothing has changed. */
  release(stripe: number, mode: Mode): void {
    makeRoom();
    const { words, lanes } = this;
    const { memory } = words;
    const index = wordIndex(stripe);
    const shares = mode.counted ? words.openShares() : undefined;
    if (shares !== undefined && shares[stripe]! <= 0) return;
    for (;;) {
      const word = Atomics.load(memory, index);
      // Where the word does not say that it is held so, somebody scribbled on it.
      if (!words.isHeldIn(word, mode)) {
        if (shares !== undefined) shares[stripe]!--;
        return;
      }
      const last = !mode.counted || (word & HOLDER_MASK) === 1;
      const passes = last && (word & QUEUED) !== 0;
      const lane = passes ? lanes.nextLane(stripe) : 0;
      const claim = lane === 0 ? 0 : lanes.openClaim(stripe, lane);
      const next = !last ? word - 1 : claim === 0 ? 0 : QUEUED;
      if (claim !== 0 && lane !== 0) lanes.stampOffer(stripe, lane);
      if (Atomics.compareExchange(memory, index, word, next) !== word) continue;
      if (shares !== undefined) shares[stripe]!--;
      if (!passes) return;
      try {
        if (claim !== 0 && lane !== 0) this.#passOn(stripe, lane, claim);
        else lanes.callHeads(stripe);
      } catch {
        // A stack overflow.
        defer(() => this.callAgain(stripe), undefined);
      }
      return;
    }
  }

  /** Makes all calls that may have been left out since the word was changed. */
  callAgain(stripe: number): void {
    this.words.unreserve(stripe);
    this.relay(stripe);
  }

  /** For a waiter that was called and does not need it, or was a head and leaves: calls the next instead (I4). */
  relay(stripe: number): void {
    const { words } = this;
    const word = words.load(stripe);
    // Held by a writer whose release will call, or reserved by somebody who acts on it.
    if ((word & QUEUED) !== 0 && (namesHolder(word) || word === QUEUED)) return;
    if (isShared(word)) this.#letReadersIn(stripe);
    else this.lanes.callHeads(stripe);
  }

  /**
   * For a thread that sleeps in a lane and is never to wake up: calls all sleepers, so that no call to this one is left or
   * still to come; and the next.
   */
  callAll(stripe: number, lane: Lane): void {
    this.lanes.callSleepers(stripe, lane);
    this.relay(stripe);
  }

  /** For a head that leaves without the stripe. */
  withdraw(stripe: number, lane: Lane, claim: number): void {
    if (this.lanes.dropClaim(stripe, lane, claim)) this.words.unreserve(stripe);
    this.relay(stripe);
  }

  /**
   * For waiters that look again: declares calls void that have not been answered for long, and calls others. The heads
   * that were called, if they live, claim again.
   */
  refresh(stripe: number): void {
    const { words, lanes } = this;
    lanes.voidOverdue(stripe);
    if (words.load(stripe) !== QUEUED || lanes.isOfferedOfLate(stripe)) return;
    words.unreserve(stripe);
    this.relay(stripe);
  }

  #admitsCalled(stripe: number, word: number, mode: Mode, lane: Lane, cause: Cause): boolean {
    const { words, lanes } = this;
    if (word === QUEUED) return cause === WAS_OFFERED;
    // Readers go in together, but not past a writer.
    return (
      words.canTake(word, mode) && !((word & QUEUED) !== 0 && lanes.keepsReadersOut(stripe, lane, cause))
    );
  }

  #admitsNewcomer(stripe: number, word: number, mode: Mode): boolean {
    const { words, lanes } = this;
    if (word === 0) return true;
    if (word === QUEUED) return !lanes.isOfferedOfLate(stripe);
    if (!words.canTake(word, mode)) return false;
    return (word & QUEUED) === 0 || !lanes.keepsReadersOut(stripe, SYNC_LANE, LOOKS);
  }

  /** Offers a stripe that was reserved for it to the head of a lane, or frees it where that head has gone. */
  #passOn(stripe: number, lane: Lane, claim: number): void {
    if (this.lanes.passTurn(stripe, lane, claim)) return;
    this.words.unreserve(stripe);
    this.lanes.callHeads(stripe);
  }

  /** Shared, and more may come in: calls the next, up to the first writer. With nobody left, opens the fast path. */
  #letReadersIn(stripe: number): void {
    const { words, lanes } = this;
    if (lanes.writerClaims(stripe) || lanes.callHeads(stripe)) return;
    // Keeps I3: somebody may have come to wait in between.
    if (words.clearQueued(stripe)) lanes.callHeads(stripe);
  }
}
