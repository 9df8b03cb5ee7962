/**
 * The words of the stripes, who waits for them, and how they pass from one to the next. All threads of a lock run
 * this code on the same memory; nothing in it blocks.
 *
 * ## What is where
 *
 * A stripe's cache line holds its word (`lock-word.ts`) and two lanes: one for threads that sleep in
 * `Atomics.wait`, one for threads whose event loop is to be told by `Atomics.waitAsync`. They are apart because a
 * thread that is blocked cannot follow a call to its event loop: such calls go nowhere, and must not use up one
 * that a sleeping thread would have followed.
 *
 * | in a lane | meaning                                                                                          |
 * | --------- | ------------------------------------------------------------------------------------------------ |
 * | EVENTS    | counts calls; a thread sleeps on it, and engines wake those who sleep on one word in their order  |
 * | SLEEPERS  | how many sleep on EVENTS. A thread that was ended in its sleep stays counted: one call too many   |
 * | CLAIM     | 0, or the slot of the lane's head, `+ SHARED` if it wants to share, `+ OFFERED` once it was called |
 * | WRITERS   | how many of the sleepers want the stripe for themselves                                          |
 * | OFFERED_AT | when the head was called last                                                                   |
 * | DOZES     | the head sleeps on its claim, or is about to                                                      |
 *
 * ## How a stripe passes on
 *
 * The word is one of: free (0), held, held + QUEUED, reserved (QUEUED alone). Who finds a stripe held sets QUEUED
 * and sleeps; so the holder's release comes here. It sets the word to 0 and calls the first sleeper of each lane
 * ({@link Stripes.stir}). Until that one is awake, others may come by and take the stripe: threads that run beat
 * one that must be woken, which is where throughput comes from. If that happens, the sleeper puts its claim, and
 * the next release reserves the stripe for it ({@link Stripes.release}): nobody else takes it. So once called, a
 * waiter is passed by those who come while it wakes up, and then by one waiter of the other lane at most (TURN).
 *
 * A reader that waited lets the next in, and so on, up to the first writer. Readers who come while QUEUED is set
 * wait. So readers and writers take turns. A reader that is called joins other readers only if no writer claims or
 * sleeps in the other lane; one that was not called, but looks for itself, only if none sleeps in its own, either.
 *
 * ## Why nobody sleeps for ever
 *
 * I1  A stripe is taken only by compare-and-swap: from 0; from reserved; or, shared, by adding to a shared word.
 *     Claims and offers decide whose turn it is, never who holds it: a stale one costs time, not exclusion.
 * I2  Before a waiter sleeps it (a) counts itself or puts its claim, (b) reads what it will sleep on, (c) sets
 *     QUEUED by `Atomics.or`, and (d) takes the stripe instead if it was free. Atomics are in one order for all
 *     threads, so whoever clears QUEUED after (c) sees (a), and its call changes or follows (b).
 * I3  Whoever clears QUEUED looks at both lanes afterwards and calls the head of each: its claim, or, where there
 *     is none, its first sleeper. (An offer that stands is such a call.)
 * I4  Whoever is called takes the stripe, which keeps QUEUED, or, if shared, calls on (I3); or sleeps again (I2);
 *     or leaves, and then calls in its stead ({@link Stripes.relay}).
 * I5  A reserved word has somebody who acts on it: the head that was offered it; or, for an instant, the thread
 *     that reserved it and has yet to offer it, or to take it (I2 d). Withdrawing a claim that was offered undoes
 *     the reservation.
 *
 * By I2 and I3 there is for every sleeping waiter at any time either QUEUED in the word, whose end leads to a call,
 * or a call under way. A call gets lost only if the called thread is terminated, or stays busy or blocked elsewhere.
 * That is why sleepers look again now and then: see {@link Stripes.refresh}.
 *
 * ## What the dead leave
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
 *     Where these fail for want of stack, they are made from a microtask ({@link makeRoom}).
 */
import { STRIPE_SHIFT, wordIndex } from '../contract/layout.js';
import { ABANDONED, HOLDER_MASK, QUEUED, SHARED } from '../contract/lock-word.js';
import { defer } from '../../common/host.js';
import { makeRoom, stamp } from './host.js';
import { patience } from './patience.js';

/** Places in a stripe's line, in integers from its word. */
const TURN = 1;
/** When a writer last said that it waits. */
const WRITER_AT = 2;
export const SYNC_LANE = 4;
export const ASYNC_LANE = 10;
/** Places in a lane. */
export const EVENTS = 0;
export const SLEEPERS = 1;
export const CLAIM = 2;
export const WRITERS = 3;
const OFFERED_AT = 4;
export const DOZES = 5;

export const OFFERED = 0x4000_0000;

/** In milliseconds, of two threads, at the most. */
const CLOCKS_DIFFER = 1000;

/** What lets somebody take a stripe that others wait for. */
export const LOOKS = 1;
export const CALLED = 2;
export const WAS_OFFERED = 3;
export type Cause = typeof LOOKS | typeof CALLED | typeof WAS_OFFERED;

/** Which lane comes first when both have a claim: TURN is 0 or 1. */
const LANES = [SYNC_LANE, ASYNC_LANE] as const;
export type Lane = (typeof LANES)[number];

/** Index of a lane of a stripe. */
export function laneIndex(stripe: number, lane: Lane): number {
  return wordIndex(stripe) + lane;
}

export function isExclusive(word: number): boolean {
  return (word & SHARED) === 0 && (word & HOLDER_MASK) !== 0;
}

function isShared(word: number): boolean {
  return (word & (SHARED | ABANDONED)) === SHARED;
}

export function isSharedClaim(claim: number): boolean {
  return (claim & SHARED) !== 0;
}

export class Stripes {
  readonly words: Int32Array;
  readonly slot: number;
  /** See `LockTable.shares`. */
  shares: Int32Array | undefined = undefined;
  /** Stripes on whose async lane this thread sleeps with nobody waiting behind: not worth a call. */
  readonly idle = new Set<number>();

  constructor(words: Int32Array, slot: number) {
    this.words = words;
    this.slot = slot;
  }

  openShares(): Int32Array {
    this.shares ??= new Int32Array((this.words.length - wordIndex(0)) >> STRIPE_SHIFT);
    return this.shares;
  }

  sharesOf(stripe: number): number {
    return this.shares?.[stripe] ?? 0;
  }

  word(stripe: number): number {
    return Atomics.load(this.words, wordIndex(stripe));
  }

  /** Held exclusively by this thread. */
  isOwn(stripe: number): boolean {
    return this.#isMine(this.word(stripe));
  }

  /** Held, and known to its holder to be waited for. */
  isAwaited(stripe: number): boolean {
    const word = this.word(stripe);
    return (word & QUEUED) !== 0 && (word & HOLDER_MASK) !== 0;
  }

  /** Takes a stripe as somebody who just came: not if others wait for it to become free. */
  arrive(stripe: number, shared: boolean): boolean {
    for (;;) {
      const word = this.word(stripe);
      if (word !== 0 && !(shared && isShared(word) && (word & QUEUED) === 0)) return false;
      if (!this.#canTake(word, shared)) return false;
      if (this.#take(stripe, word, shared, 0)) return true;
    }
  }

  /**
   * For somebody who just came and found the stripe closed: takes it if nobody holds it against that, and whoever it is
   * closed for cannot be alive.
   */
  intrude(stripe: number, shared: boolean): boolean {
    for (;;) {
      const word = this.word(stripe);
      if (word === QUEUED) {
        if (this.#isOfferedOfLate(stripe)) return false;
      } else if (word !== 0) {
        if (!this.#canTake(word, shared)) return false;
        if ((word & QUEUED) !== 0 && this.keepsReadersOut(stripe, SYNC_LANE, LOOKS)) return false;
      }
      if (this.#take(stripe, word, shared, 0)) return true;
    }
  }

  /** Takes a stripe as somebody who waits in a lane. */
  takeCalled(stripe: number, shared: boolean, lane: Lane, cause: Cause): boolean {
    for (;;) {
      const word = this.word(stripe);
      if (word === QUEUED ? cause !== WAS_OFFERED : !this.#canTake(word, shared)) return false;
      // Readers go in together, but not past a writer.
      if (shared && (word & QUEUED) !== 0 && word !== QUEUED && this.keepsReadersOut(stripe, lane, cause))
        return false;
      if (this.#take(stripe, word, shared, word === 0 ? QUEUED : 0)) return true;
    }
  }

  /** I2 (c) and (d). True: taken. False: it is held, or reserved, and QUEUED is set. */
  announce(stripe: number, shared: boolean): boolean {
    const index = wordIndex(stripe);
    if (!shared) this.writerWaits(stripe);
    for (;;) {
      if (shared && this.arrive(stripe, true)) return true;
      const word = Atomics.or(this.words, index, QUEUED);
      const mayJoin = shared && isShared(word) && (word & QUEUED) === 0;
      if (word !== 0 && !mayJoin) return false;
      // If it was free, it is reserved by this thread now, which keeps I5 by taking it.
      if (this.#canTake(word, shared) && this.#take(stripe, word | QUEUED, shared, 0)) return true;
      if (word !== 0) return false;
    }
  }

  /** To be called by a waiter that has taken a stripe: a reader lets in who may come in, too (I4). */
  entered(stripe: number, shared: boolean): void {
    if (shared) this.#spread(stripe);
  }

  /** A writer says that it is alive. */
  writerWaits(stripe: number): void {
    Atomics.store(this.words, wordIndex(stripe) + WRITER_AT, stamp());
  }

  /** Gives a stripe back, this thread's share in it included. Where it throws, nothing has changed. */
  release(stripe: number, shared: boolean): void {
    makeRoom();
    const { words } = this;
    const index = wordIndex(stripe);
    const shares = shared ? this.openShares() : undefined;
    if (shares !== undefined && shares[stripe]! <= 0) return;
    for (;;) {
      const word = Atomics.load(words, index);
      // Where the word does not say that it is held so, somebody scribbled on it.
      if (shared ? !isShared(word) || (word & HOLDER_MASK) === 0 : !this.#isMine(word)) {
        if (shares !== undefined) shares[stripe]!--;
        return;
      }
      const last = !shared || (word & HOLDER_MASK) === 1;
      const passes = last && (word & QUEUED) !== 0;
      const lane = passes ? this.#nextLane(stripe) : 0;
      const claim = lane === 0 ? 0 : Atomics.load(words, index + lane + CLAIM);
      const next = !last ? word - 1 : claim !== 0 && (claim & OFFERED) === 0 ? QUEUED : 0;
      // The reservation is as old as the offer, which is yet to be made.
      if (next === QUEUED) Atomics.store(words, index + lane + OFFERED_AT, stamp());
      if (Atomics.compareExchange(words, index, word, next) !== word) continue;
      if (shares !== undefined) shares[stripe]!--;
      if (!passes) return;
      try {
        if (next === QUEUED && lane !== 0) this.#passOn(stripe, lane, claim);
        else this.#stir(stripe);
      } catch {
        // A stack overflow.
        defer(() => this.callAgain(stripe), undefined);
      }
      return;
    }
  }

  /** Makes all calls that may have been left out since the word was changed. */
  callAgain(stripe: number): void {
    this.#unreserve(stripe);
    this.relay(stripe);
  }

  /** Changes who holds a stripe, within this thread: from the last holder to one that waited. False: not the last. */
  handOver(stripe: number, shared: boolean, nextShared: boolean): boolean {
    const index = wordIndex(stripe);
    const shares = shared || nextShared ? this.openShares() : undefined;
    if (shared && shares![stripe]! <= 0) return false;
    const held = shared ? SHARED | 1 : this.slot;
    const next = nextShared ? SHARED | 1 : this.slot;
    for (;;) {
      const word = Atomics.load(this.words, index);
      if ((word & ~QUEUED) !== held) return false;
      if (Atomics.compareExchange(this.words, index, word, next | QUEUED) !== word) continue;
      if (shared) shares![stripe]!--;
      if (nextShared) shares![stripe]!++;
      return true;
    }
  }

  /** For one who was called and does not need it, or was a head and leaves: calls the next in its stead (I4). */
  relay(stripe: number): void {
    const word = this.word(stripe);
    // Held by a writer whose release will call, or reserved by somebody who acts on it.
    if ((word & QUEUED) !== 0 && (isExclusive(word) || word === QUEUED)) return;
    if (isShared(word)) this.#spread(stripe);
    else this.#stir(stripe);
  }

  /**
   * For one who sleeps in a lane and is never to wake up: calls all sleepers, so that no call to this one is left or
   * still to come; and the next.
   */
  callAll(stripe: number, lane: Lane): void {
    const index = laneIndex(stripe, lane) + EVENTS;
    Atomics.add(this.words, index, 1);
    Atomics.notify(this.words, index);
    this.relay(stripe);
  }

  /** I2 (a) for the head of a lane. Returns the claim, or 0 if the lane has a head already. */
  claim(stripe: number, lane: Lane, shared: boolean): number {
    const claim = shared ? this.slot | SHARED : this.slot;
    const index = laneIndex(stripe, lane);
    if (Atomics.compareExchange(this.words, index + CLAIM, 0, claim) !== 0) return 0;
    Atomics.store(this.words, index + DOZES, 0);
    return claim;
  }

  /** Ends a claim. True if it had been offered the stripe. */
  dropClaim(stripe: number, lane: Lane, claim: number): boolean {
    const index = laneIndex(stripe, lane) + CLAIM;
    if (Atomics.compareExchange(this.words, index, claim, 0) === claim) return false;
    return Atomics.compareExchange(this.words, index, claim | OFFERED, 0) === (claim | OFFERED);
  }

  /** For a head that leaves without the stripe. */
  withdraw(stripe: number, lane: Lane, claim: number): void {
    if (this.dropClaim(stripe, lane, claim)) this.#unreserve(stripe);
    this.relay(stripe);
  }

  /**
   * For those who look again: declares calls void that have not been answered for long, and calls others. The heads
   * that were called, if they live, claim again.
   */
  refresh(stripe: number): void {
    for (const lane of LANES) this.#voidIfOverdue(stripe, lane);
    if (this.word(stripe) !== QUEUED || this.#isOfferedOfLate(stripe)) return;
    this.#unreserve(stripe);
    this.relay(stripe);
  }

  /** Whether somebody in a lane who wants to join the readers of a stripe must not, on account of a writer. */
  keepsReadersOut(stripe: number, lane: Lane, cause: Cause): boolean {
    const { words } = this;
    const index = wordIndex(stripe);
    const other = lane === SYNC_LANE ? ASYNC_LANE : SYNC_LANE;
    const one =
      this.#writerClaims(stripe) ||
      Atomics.load(words, index + other + WRITERS) > 0 ||
      (cause === LOOKS && Atomics.load(words, index + lane + WRITERS) > 0);
    return one && this.#writerLives(stripe);
  }

  /** Whether anybody waits but this thread's event loop, which is `claim` (or 0) and sleeps or not. */
  othersWait(stripe: number, ownClaim: number, ownSleeps: boolean): boolean {
    const { words } = this;
    const sync = laneIndex(stripe, SYNC_LANE);
    const async = laneIndex(stripe, ASYNC_LANE);
    if (Atomics.load(words, sync + CLAIM) !== 0 || Atomics.load(words, sync + SLEEPERS) > 0) return true;
    const claim = Atomics.load(words, async + CLAIM);
    if (claim !== 0 && (claim & ~OFFERED) !== ownClaim) return true;
    return Atomics.load(words, async + SLEEPERS) > (ownSleeps ? 1 : 0);
  }

  #isMine(word: number): boolean {
    return (word & ~(QUEUED | ABANDONED)) === this.slot;
  }

  #canTake(word: number, shared: boolean): boolean {
    if (word === 0) return true;
    return shared && isShared(word) && (word & HOLDER_MASK) < HOLDER_MASK;
  }

  #take(stripe: number, word: number, shared: boolean, queued: number): boolean {
    const shares = shared ? this.openShares() : undefined;
    const free = (word & ~QUEUED) === 0;
    const next = (free ? (word & QUEUED) | (shared ? SHARED | 1 : this.slot) : word + 1) | queued;
    if (Atomics.compareExchange(this.words, wordIndex(stripe), word, next) !== word) return false;
    // Keeps I8, with those who call this.
    if (shares !== undefined) shares[stripe]!++;
    return true;
  }

  /** The lane that a stripe is to be reserved for, or 0. */
  #nextLane(stripe: number): Lane | 0 {
    const { words } = this;
    const index = wordIndex(stripe);
    const turn = Atomics.load(words, index + TURN) & 1;
    const first = turn === 0 ? SYNC_LANE : ASYNC_LANE;
    const second = turn === 0 ? ASYNC_LANE : SYNC_LANE;
    if (this.#hasClaim(index + first)) return first;
    return this.#hasClaim(index + second) ? second : 0;
  }

  #hasClaim(lane: number): boolean {
    const claim = Atomics.load(this.words, lane + CLAIM);
    return claim !== 0 && (claim & OFFERED) === 0;
  }

  /** Offers a stripe that was reserved for it to the head of a lane. */
  #passOn(stripe: number, lane: Lane, claim: number): void {
    const { words } = this;
    const index = wordIndex(stripe);
    Atomics.store(words, index + TURN, lane === SYNC_LANE ? 1 : 0);
    if (this.#offer(stripe, lane, claim)) {
      // The other lane is to have a head by the next release.
      const other = lane === SYNC_LANE ? ASYNC_LANE : SYNC_LANE;
      if (Atomics.load(words, index + other + CLAIM) === 0) this.#callLane(stripe, other);
      return;
    }
    this.#unreserve(stripe);
    this.#stir(stripe);
  }

  /** False: the claim is gone, or its thread is. */
  #offer(stripe: number, lane: Lane, claim: number): boolean {
    const { words } = this;
    const index = laneIndex(stripe, lane);
    Atomics.store(words, index + OFFERED_AT, stamp());
    if (Atomics.compareExchange(words, index + CLAIM, claim, claim | OFFERED) !== claim) return false;
    // All: a thread that withdrew its claim may still sleep there.
    if (Atomics.notify(words, index + CLAIM) > 0 || Atomics.load(words, index + DOZES) === 0) return true;
    // Dead, or about to sleep and to see this: it claims again.
    return Atomics.compareExchange(words, index + CLAIM, claim | OFFERED, 0) !== (claim | OFFERED);
  }

  #isOverdue(index: number): boolean {
    return !this.#isOfLate(index, patience.head);
  }

  /** Whether a word was stamped less than so many milliseconds ago. */
  #isOfLate(index: number, milliseconds: number): boolean {
    const age = (stamp() - Atomics.load(this.words, index)) | 0;
    return age <= milliseconds && age >= -CLOCKS_DIFFER;
  }

  #isOfferedOfLate(stripe: number): boolean {
    const index = wordIndex(stripe);
    return (
      !this.#isOverdue(index + SYNC_LANE + OFFERED_AT) || !this.#isOverdue(index + ASYNC_LANE + OFFERED_AT)
    );
  }

  /** Ends an offer that nobody has answered for long. */
  #voidIfOverdue(stripe: number, lane: Lane): boolean {
    const index = laneIndex(stripe, lane);
    const claim = Atomics.load(this.words, index + CLAIM);
    if ((claim & OFFERED) === 0 || !this.#isOverdue(index + OFFERED_AT)) return false;
    if (Atomics.compareExchange(this.words, index + CLAIM, claim, 0) !== claim) return false;
    Atomics.notify(this.words, index + CLAIM);
    return true;
  }

  #unreserve(stripe: number): void {
    Atomics.compareExchange(this.words, wordIndex(stripe), QUEUED, 0);
  }

  /** Calls the head of each lane (I3). True if there is any. */
  #stir(stripe: number): boolean {
    const sync = this.#callLane(stripe, SYNC_LANE);
    return this.#callLane(stripe, ASYNC_LANE) || sync;
  }

  #callLane(stripe: number, lane: Lane): boolean {
    const { words } = this;
    const index = laneIndex(stripe, lane);
    for (;;) {
      const claim = Atomics.load(words, index + CLAIM);
      if (claim === 0) break;
      if ((claim & OFFERED) === 0 ? this.#offer(stripe, lane, claim) : !this.#voidIfOverdue(stripe, lane))
        return true;
    }
    const ownIdle = lane === ASYNC_LANE && this.idle.has(stripe) ? 1 : 0;
    if (Atomics.load(words, index + SLEEPERS) <= ownIdle) return false;
    Atomics.add(words, index + EVENTS, 1);
    Atomics.notify(words, index + EVENTS, 1);
    return true;
  }

  #writerClaims(stripe: number): boolean {
    const index = wordIndex(stripe);
    const sync = Atomics.load(this.words, index + SYNC_LANE + CLAIM);
    const async = Atomics.load(this.words, index + ASYNC_LANE + CLAIM);
    return (sync !== 0 && !isSharedClaim(sync)) || (async !== 0 && !isSharedClaim(async));
  }

  #writerLives(stripe: number): boolean {
    return this.#isOfLate(wordIndex(stripe) + WRITER_AT, 2 * patience.sleeper);
  }

  /** Shared, and more may come in: calls the next, up to the first writer. With nobody left, opens the fast path. */
  #spread(stripe: number): void {
    if ((this.#writerClaims(stripe) && this.#writerLives(stripe)) || this.#stir(stripe)) return;
    const index = wordIndex(stripe);
    for (;;) {
      const word = Atomics.load(this.words, index);
      if ((word & QUEUED) === 0 || !isShared(word)) return;
      if (Atomics.compareExchange(this.words, index, word, word & ~QUEUED) === word) break;
    }
    // Keeps I3: somebody may have come to wait in between.
    this.#stir(stripe);
  }
}
