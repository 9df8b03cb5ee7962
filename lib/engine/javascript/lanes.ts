import { wordIndex } from '../contract/layout.js';
import { SHARED } from '../contract/lock-word.js';
import type { Mode } from '../contract/mode.js';
import { stamp } from './host.js';
import { patience } from './patience.js';

/*
 * Who waits for a stripe. Its cache line holds its word (`lock-word.ts`) and two lanes: one for threads that sleep in
 * `Atomics.wait`, one for threads whose event loop is told by `Atomics.waitAsync`. There are two because a thread that is
 * blocked cannot follow a call to its event loop: such a call is lost, and must not be one that a sleeping thread would
 * have followed.
 *
 * | in a lane  | meaning                                                                                           |
 * | ---------- | ------------------------------------------------------------------------------------------------- |
 * | EVENTS     | counts calls; threads sleep on it, and the host wakes those who sleep on one word in their order    |
 * | SLEEPERS   | how many sleep on EVENTS. A thread that was ended in its sleep stays counted: one call too many     |
 * | CLAIM      | 0, or the slot of the lane's head, `+ SHARED` if it is a reader, `+ OFFERED` once it was called     |
 * | WRITERS    | how many of the sleepers are writers                                                               |
 * | OFFERED_AT | when the head was last called                                                                      |
 * | DOZES      | the head sleeps on its claim, or is about to                                                       |
 */

/** Places in a stripe's line, in integers from its word: which lane comes first when both have a claim, 0 or 1. */
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
export const OFFERED_AT = 4;
export const DOZES = 5;

export const OFFERED = 0x4000_0000;

/** By how much the clocks of two threads differ at most, in milliseconds. */
const CLOCKS_DIFFER = 1000;

/** Why a waiter may take a stripe that others wait for, too: it looks for itself, was called, or was offered the stripe. */
export const LOOKS = 1;
export const CALLED = 2;
export const WAS_OFFERED = 3;
export type Cause = typeof LOOKS | typeof CALLED | typeof WAS_OFFERED;

const LANES = [SYNC_LANE, ASYNC_LANE] as const;
export type Lane = (typeof LANES)[number];

/** Index of a lane of a stripe. */
export function laneIndex(stripe: number, lane: Lane): number {
  return wordIndex(stripe) + lane;
}

function otherLane(lane: Lane): Lane {
  return lane === SYNC_LANE ? ASYNC_LANE : SYNC_LANE;
}

/** Whether a waiter in this mode is a writer: it waits until the stripe is free, and keeps readers out meanwhile. */
export function isWriter(mode: Mode): boolean {
  return !mode.counted;
}

function isWritersClaim(claim: number): boolean {
  return claim !== 0 && (claim & SHARED) === 0;
}

/** The lanes of a lock's stripes as one thread uses them. I1 … I5 stand in `stripes.ts`. */
export class Lanes {
  /** All of the lock's memory. */
  readonly memory: Int32Array;
  /** Stripes in whose async lane this thread sleeps although none of its acquisitions waits there: not worth a call. */
  readonly idle = new Set<number>();
  readonly #slot: number;

  constructor(memory: Int32Array, slot: number) {
    this.memory = memory;
    this.#slot = slot;
  }

  /** The claim of this thread for a waiter in this mode. */
  claimIn(mode: Mode): number {
    return isWriter(mode) ? this.#slot : this.#slot | SHARED;
  }

  /** I2 (a) for the head of a lane. Returns the claim, or 0 if the lane has a head already. */
  claim(stripe: number, lane: Lane, mode: Mode): number {
    const claim = this.claimIn(mode);
    const index = laneIndex(stripe, lane);
    if (Atomics.compareExchange(this.memory, index + CLAIM, 0, claim) !== 0) return 0;
    Atomics.store(this.memory, index + DOZES, 0);
    return claim;
  }

  /** Ends a claim. True if it had been offered the stripe. */
  dropClaim(stripe: number, lane: Lane, claim: number): boolean {
    const index = laneIndex(stripe, lane) + CLAIM;
    if (Atomics.compareExchange(this.memory, index, claim, 0) === claim) return false;
    return Atomics.compareExchange(this.memory, index, claim | OFFERED, 0) === (claim | OFFERED);
  }

  /** The claim of a lane's head, if it was not offered the stripe yet; else 0. */
  openClaim(stripe: number, lane: Lane): number {
    const claim = Atomics.load(this.memory, laneIndex(stripe, lane) + CLAIM);
    return (claim & OFFERED) === 0 ? claim : 0;
  }

  /** The lane that a stripe is to be reserved for, or 0. */
  nextLane(stripe: number): Lane | 0 {
    const turn = Atomics.load(this.memory, wordIndex(stripe) + TURN) & 1;
    const first = turn === 0 ? SYNC_LANE : ASYNC_LANE;
    if (this.openClaim(stripe, first) !== 0) return first;
    const second = otherLane(first);
    return this.openClaim(stripe, second) !== 0 ? second : 0;
  }

  /** To be called before a stripe is reserved for the head of a lane: a reservation is as old as its offer. */
  stampOffer(stripe: number, lane: Lane): void {
    Atomics.store(this.memory, laneIndex(stripe, lane) + OFFERED_AT, stamp());
  }

  /** Offers a stripe that was reserved for it to the head of a lane. False: the claim is gone, or its thread is. */
  passTurn(stripe: number, lane: Lane, claim: number): boolean {
    const { memory } = this;
    Atomics.store(memory, wordIndex(stripe) + TURN, lane === SYNC_LANE ? 1 : 0);
    if (!this.#offer(stripe, lane, claim)) return false;
    // The other lane is to have a head by the next release.
    const other = otherLane(lane);
    if (Atomics.load(memory, laneIndex(stripe, other) + CLAIM) === 0) this.#callHead(stripe, other);
    return true;
  }

  /** Calls the head of each lane (I3). True if there is any. */
  callHeads(stripe: number): boolean {
    const sync = this.#callHead(stripe, SYNC_LANE);
    return this.#callHead(stripe, ASYNC_LANE) || sync;
  }

  /** Calls all who sleep in a lane. */
  callSleepers(stripe: number, lane: Lane): void {
    const index = laneIndex(stripe, lane) + EVENTS;
    Atomics.add(this.memory, index, 1);
    Atomics.notify(this.memory, index);
  }

  /** Ends the offers that have not been answered for long. */
  voidOverdue(stripe: number): void {
    for (const lane of LANES) this.#voidIfOverdue(stripe, lane);
  }

  /** Whether the head of a lane was offered the stripe so lately that it may be about to answer. */
  isOfferedOfLate(stripe: number): boolean {
    const index = wordIndex(stripe) + OFFERED_AT;
    return (
      this.#isOfLate(index + SYNC_LANE, patience.head) || this.#isOfLate(index + ASYNC_LANE, patience.head)
    );
  }

  /** A writer says that it is alive. */
  writerWaits(stripe: number): void {
    Atomics.store(this.memory, wordIndex(stripe) + WRITER_AT, stamp());
  }

  /** Whether a writer that lives is the head of a lane. */
  writerClaims(stripe: number): boolean {
    return this.#hasWritersClaim(stripe) && this.#writerLives(stripe);
  }

  /** Whether somebody in a lane who wants to join the readers of a stripe must not, because a writer waits. */
  keepsReadersOut(stripe: number, lane: Lane, cause: Cause): boolean {
    const { memory } = this;
    const writer =
      this.#hasWritersClaim(stripe) ||
      Atomics.load(memory, laneIndex(stripe, otherLane(lane)) + WRITERS) > 0 ||
      (cause === LOOKS && Atomics.load(memory, laneIndex(stripe, lane) + WRITERS) > 0);
    return writer && this.#writerLives(stripe);
  }

  /** Whether anybody waits but this thread's event loop, whose claim is `ownClaim` (or 0), and which sleeps or not. */
  othersWait(stripe: number, ownClaim: number, ownSleeps: boolean): boolean {
    const { memory } = this;
    const sync = laneIndex(stripe, SYNC_LANE);
    const async = laneIndex(stripe, ASYNC_LANE);
    if (Atomics.load(memory, sync + CLAIM) !== 0 || Atomics.load(memory, sync + SLEEPERS) > 0) return true;
    const claim = Atomics.load(memory, async + CLAIM);
    if (claim !== 0 && (claim & ~OFFERED) !== ownClaim) return true;
    return Atomics.load(memory, async + SLEEPERS) > (ownSleeps ? 1 : 0);
  }

  #offer(stripe: number, lane: Lane, claim: number): boolean {
    const { memory } = this;
    const index = laneIndex(stripe, lane);
    this.stampOffer(stripe, lane);
    if (Atomics.compareExchange(memory, index + CLAIM, claim, claim | OFFERED) !== claim) return false;
    // All: a thread that withdrew its claim may still sleep there.
    if (Atomics.notify(memory, index + CLAIM) > 0 || Atomics.load(memory, index + DOZES) === 0) return true;
    // Its thread is dead, or is about to sleep and sees this: then it claims again.
    return Atomics.compareExchange(memory, index + CLAIM, claim | OFFERED, 0) !== (claim | OFFERED);
  }

  #callHead(stripe: number, lane: Lane): boolean {
    const { memory } = this;
    const index = laneIndex(stripe, lane);
    for (;;) {
      const claim = Atomics.load(memory, index + CLAIM);
      if (claim === 0) break;
      if ((claim & OFFERED) === 0 ? this.#offer(stripe, lane, claim) : !this.#voidIfOverdue(stripe, lane))
        return true;
    }
    const ownIdle = lane === ASYNC_LANE && this.idle.has(stripe) ? 1 : 0;
    if (Atomics.load(memory, index + SLEEPERS) <= ownIdle) return false;
    Atomics.add(memory, index + EVENTS, 1);
    Atomics.notify(memory, index + EVENTS, 1);
    return true;
  }

  /** False: there is no offer, or it may be answered yet. */
  #voidIfOverdue(stripe: number, lane: Lane): boolean {
    const { memory } = this;
    const index = laneIndex(stripe, lane);
    const claim = Atomics.load(memory, index + CLAIM);
    if ((claim & OFFERED) === 0 || this.#isOfLate(index + OFFERED_AT, patience.head)) return false;
    if (Atomics.compareExchange(memory, index + CLAIM, claim, 0) !== claim) return false;
    Atomics.notify(memory, index + CLAIM);
    return true;
  }

  /** Whether a place was stamped less than so many milliseconds ago. */
  #isOfLate(index: number, milliseconds: number): boolean {
    const age = (stamp() - Atomics.load(this.memory, index)) | 0;
    return age <= milliseconds && age >= -CLOCKS_DIFFER;
  }

  #hasWritersClaim(stripe: number): boolean {
    const index = wordIndex(stripe) + CLAIM;
    return (
      isWritersClaim(Atomics.load(this.memory, index + SYNC_LANE)) ||
      isWritersClaim(Atomics.load(this.memory, index + ASYNC_LANE))
    );
  }

  #writerLives(stripe: number): boolean {
    return this.#isOfLate(wordIndex(stripe) + WRITER_AT, 2 * patience.sleeper);
  }
}
