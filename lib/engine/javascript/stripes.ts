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
 * wait. So readers and writers take turns.
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
 */
import { STRIPE_SHIFT, wordIndex } from '../layout.js';
import { ABANDONED, HOLDER_MASK, QUEUED, SHARED } from '../lock-word.js';

/** Places in a stripe's line, in integers from its word. */
const TURN = 1;
/** Counts offers, so that an old one can be told from one like it. */
const OFFERS = 2;
export const SYNC_LANE = 4;
export const ASYNC_LANE = 8;
/** Places in a lane. */
export const EVENTS = 0;
const SLEEPERS = 1;
export const CLAIM = 2;

export const OFFERED = 0x4000_0000;

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

  /** Takes a stripe as somebody who was called. */
  takeCalled(stripe: number, shared: boolean, offered: boolean): boolean {
    for (;;) {
      const word = this.word(stripe);
      if (word === QUEUED ? !offered : !this.#canTake(word, shared)) return false;
      // Readers go in together, but not past a writer that is next.
      if (shared && (word & QUEUED) !== 0 && word !== QUEUED && this.#writerIsNext(stripe)) return false;
      if (this.#take(stripe, word, shared, word === 0 ? QUEUED : 0)) return true;
    }
  }

  /** I2 (c) and (d). True: taken. False: it is held, or reserved, and QUEUED is set. */
  announce(stripe: number, shared: boolean): boolean {
    const index = wordIndex(stripe);
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

  /** Gives a stripe back. Shares must have been counted down. */
  release(stripe: number, shared: boolean): void {
    const { words } = this;
    const index = wordIndex(stripe);
    for (;;) {
      const word = Atomics.load(words, index);
      // Where the word does not say that it is held so, somebody scribbled on it.
      if (shared ? !isShared(word) || (word & HOLDER_MASK) === 0 : !this.#isMine(word)) return;
      const last = !shared || (word & HOLDER_MASK) === 1;
      if (last && (word & QUEUED) !== 0) {
        if (this.#passOn(stripe, word)) return;
      } else if (Atomics.compareExchange(words, index, word, last ? 0 : word - 1) === word) {
        return;
      }
    }
  }

  /** Changes who holds a stripe, within this thread: from the last holder to one that waited. False: not the last. */
  handOver(stripe: number, shared: boolean, nextShared: boolean): boolean {
    const index = wordIndex(stripe);
    const held = shared ? SHARED | 1 : this.slot;
    const next = nextShared ? SHARED | 1 : this.slot;
    for (;;) {
      const word = Atomics.load(this.words, index);
      if ((word & ~QUEUED) !== held) return false;
      if (Atomics.compareExchange(this.words, index, word, next | QUEUED) !== word) continue;
      if (nextShared) this.#count(stripe, 1);
      return true;
    }
  }

  /** Counts this thread's shared hold down. False if there is none. */
  dropShare(stripe: number): boolean {
    if (this.sharesOf(stripe) <= 0) return false;
    this.#count(stripe, -1);
    return true;
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

  /** I2 (a) for a sleeper. */
  countSleeper(stripe: number, lane: Lane, by: 1 | -1): void {
    Atomics.add(this.words, laneIndex(stripe, lane) + SLEEPERS, by);
  }

  /** I2 (a) for the head of a lane. Returns the claim, or 0 if the lane has a head already. */
  claim(stripe: number, lane: Lane, shared: boolean): number {
    const claim = shared ? this.slot | SHARED : this.slot;
    return Atomics.compareExchange(this.words, laneIndex(stripe, lane) + CLAIM, 0, claim) === 0 ? claim : 0;
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
   * For those who look again: what makes one look like the next if a call got lost, else -1. If two looks that are
   * long enough apart find the same, {@link refresh} is due.
   */
  pendingCall(stripe: number): number {
    const index = wordIndex(stripe);
    const sync = Atomics.load(this.words, index + SYNC_LANE + CLAIM);
    const async = Atomics.load(this.words, index + ASYNC_LANE + CLAIM);
    const offered = ((sync | async) & OFFERED) !== 0;
    const reserved = Atomics.load(this.words, index) === QUEUED;
    return offered || reserved ? Atomics.load(this.words, index + OFFERS) & HOLDER_MASK : -1;
  }

  /** Declares unanswered calls void, and calls others. The heads that were called, if they live, claim again. */
  refresh(stripe: number): void {
    for (const lane of LANES) {
      const index = laneIndex(stripe, lane) + CLAIM;
      const claim = Atomics.load(this.words, index);
      if ((claim & OFFERED) === 0 || Atomics.compareExchange(this.words, index, claim, 0) !== claim) continue;
      Atomics.notify(this.words, index);
    }
    this.#unreserve(stripe);
    this.relay(stripe);
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
    const free = (word & ~QUEUED) === 0;
    const next = (free ? (word & QUEUED) | (shared ? SHARED | 1 : this.slot) : word + 1) | queued;
    if (Atomics.compareExchange(this.words, wordIndex(stripe), word, next) !== word) return false;
    if (shared) this.#count(stripe, 1);
    return true;
  }

  #count(stripe: number, by: 1 | -1): void {
    const shares = this.openShares();
    shares[stripe] = (shares[stripe] ?? 0) + by;
  }

  /** The last holder leaves and somebody waits. False: the word has changed. */
  #passOn(stripe: number, word: number): boolean {
    const { words } = this;
    const index = wordIndex(stripe);
    const turn = Atomics.load(words, index + TURN) & 1;
    for (const which of [turn, 1 - turn]) {
      const lane = which === 0 ? SYNC_LANE : ASYNC_LANE;
      const claim = Atomics.load(words, index + lane + CLAIM);
      if (claim === 0 || (claim & OFFERED) !== 0) continue;
      if (Atomics.compareExchange(words, index, word, QUEUED) !== word) return false;
      Atomics.store(words, index + TURN, 1 - which);
      if (this.#offer(stripe, lane, claim)) {
        // The other lane is to have a head by the next release.
        const other = which === 0 ? ASYNC_LANE : SYNC_LANE;
        if (Atomics.load(words, index + other + CLAIM) === 0) this.#callLane(stripe, other);
      } else {
        this.#unreserve(stripe);
        this.#stir(stripe);
      }
      return true;
    }
    if (Atomics.compareExchange(words, index, word, 0) !== word) return false;
    this.#stir(stripe);
    return true;
  }

  #offer(stripe: number, lane: Lane, claim: number): boolean {
    const { words } = this;
    const index = laneIndex(stripe, lane) + CLAIM;
    Atomics.add(words, wordIndex(stripe) + OFFERS, 1);
    if (Atomics.compareExchange(words, index, claim, claim | OFFERED) !== claim) return false;
    // All: a thread that withdrew its claim may still sleep there.
    Atomics.notify(words, index);
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
      if ((claim & OFFERED) !== 0 || this.#offer(stripe, lane, claim)) return true;
    }
    const ownIdle = lane === ASYNC_LANE && this.idle.has(stripe) ? 1 : 0;
    if (Atomics.load(words, index + SLEEPERS) <= ownIdle) return false;
    Atomics.add(words, index + EVENTS, 1);
    Atomics.notify(words, index + EVENTS, 1);
    return true;
  }

  #writerIsNext(stripe: number): boolean {
    const index = wordIndex(stripe);
    const sync = Atomics.load(this.words, index + SYNC_LANE + CLAIM);
    const async = Atomics.load(this.words, index + ASYNC_LANE + CLAIM);
    return (sync !== 0 && !isSharedClaim(sync)) || (async !== 0 && !isSharedClaim(async));
  }

  /** Shared, and more may come in: calls the next, up to the first writer. With nobody left, opens the fast path. */
  #spread(stripe: number): void {
    if (this.#writerIsNext(stripe) || this.#stir(stripe)) return;
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
