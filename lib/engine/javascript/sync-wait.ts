import { availableParallelism } from 'node:os';
import type { BlockedThread } from './blocking.js';
import { clock } from './host.js';
import { patience } from './patience.js';
import {
  CALLED,
  type Cause,
  CLAIM,
  DOZES,
  EVENTS,
  laneIndex,
  LOOKS,
  OFFERED,
  SLEEPERS,
  type Stripes,
  SYNC_LANE,
  WAS_OFFERED,
  WRITERS,
} from './stripes.js';

/** Looks at a word before its thread sleeps: 10 to 30 microseconds, about what it takes to wake a thread. */
const MOST_SPINS = availableParallelism() > 1 ? 500 : 0;
const LEAST_SPINS = MOST_SPINS >> 4;

/** From Node 24 on. */
const pause = (Atomics as { pause?: () => void }).pause ?? ((): void => undefined);

/** Waits for one stripe after the other, blocking the thread. */
export class SyncWait {
  readonly #stripes: Stripes;
  /** Adapts: halved when spinning was in vain, doubled when it was not. */
  #spins = MOST_SPINS;

  constructor(stripes: Stripes) {
    this.#stripes = stripes;
  }

  /** True: taken, and noted in `thread`. False: the deadline has passed. */
  waitFor(stripe: number, shared: boolean, deadline: number, thread: BlockedThread): boolean {
    if (this.#spin(stripe, shared)) {
      thread.taken++;
      return true;
    }
    const attempt = new Attempt(this.#stripes, stripe, shared, deadline, thread);
    let got = attempt.inLane();
    while (got === undefined) got = attempt.inLane();
    if (got) this.#stripes.entered(stripe, shared);
    return got;
  }

  #spin(stripe: number, shared: boolean): boolean {
    const stripes = this.#stripes;
    for (let i = 0; i < this.#spins; i++) {
      if (stripes.arrive(stripe, shared)) {
        this.#spins = Math.min(2 * this.#spins, MOST_SPINS);
        return true;
      }
      pause();
    }
    this.#spins = Math.max(this.#spins >> 1, LEAST_SPINS);
    return false;
  }
}

class Attempt {
  readonly #stripes: Stripes;
  readonly #stripe: number;
  readonly #shared: boolean;
  readonly #deadline: number;
  readonly #thread: BlockedThread;
  #nap = patience.head;
  #called = false;

  constructor(stripes: Stripes, stripe: number, shared: boolean, deadline: number, thread: BlockedThread) {
    this.#stripes = stripes;
    this.#stripe = stripe;
    this.#shared = shared;
    this.#deadline = deadline;
    this.#thread = thread;
  }

  /** Sleeps in the lane until called. Undefined: not decided yet. */
  inLane(): boolean | undefined {
    const stripes = this.#stripes;
    const stripe = this.#stripe;
    const shared = this.#shared;
    const thread = this.#thread;
    if (this.#called) {
      const claim = stripes.claim(stripe, SYNC_LANE, shared);
      thread.stripe = stripe;
      thread.claim = claim;
      if (claim !== 0) return this.#asHead(claim);
    }
    const index = laneIndex(stripe, SYNC_LANE) + EVENTS;
    this.#enterLane();
    const events = Atomics.load(stripes.words, index);
    if (stripes.announce(stripe, shared)) {
      thread.taken++;
      this.#leaveLane();
      return true;
    }
    const left = this.#deadline - clock();
    let cause: Cause = CALLED;
    if (left > 0) {
      const nap = thread.beforeSleep(Math.min(left, this.#nap));
      if (Atomics.wait(stripes.words, index, events, nap) === 'timed-out') cause = LOOKS;
    }
    this.#leaveLane();
    if (left <= 0) {
      stripes.relay(stripe);
      return false;
    }
    if (cause === LOOKS) {
      this.#nap = Math.min(2 * this.#nap, patience.sleeper);
      stripes.refresh(stripe);
    }
    this.#called = true;
    if (!stripes.takeCalled(stripe, shared, SYNC_LANE, cause)) return undefined;
    thread.taken++;
    return true;
  }

  /** I2 (a). The count and the note of it are one: nothing can come between. */
  #enterLane(): void {
    const { words } = this.#stripes;
    const index = laneIndex(this.#stripe, SYNC_LANE);
    const thread = this.#thread;
    thread.stripe = this.#stripe;
    Atomics.add(words, index + SLEEPERS, 1);
    thread.sleeps = true;
    if (this.#shared) return;
    Atomics.add(words, index + WRITERS, 1);
    thread.sleepsAsWriter = true;
  }

  #leaveLane(): void {
    this.#thread.leaveLane();
  }

  /** Sleeps until offered the stripe. */
  #asHead(claim: number): boolean | undefined {
    const stripes = this.#stripes;
    const stripe = this.#stripe;
    const thread = this.#thread;
    const { words } = stripes;
    const lane = laneIndex(stripe, SYNC_LANE);
    const index = lane + CLAIM;
    for (;;) {
      if (stripes.announce(stripe, this.#shared)) break;
      let now = this.#spinOn(index, claim);
      if (now === claim) {
        const left = this.#deadline - clock();
        if (left <= 0) {
          thread.withdrawClaim();
          return false;
        }
        const nap = thread.beforeSleep(Math.min(left, patience.head));
        Atomics.store(words, lane + DOZES, 1);
        if (Atomics.wait(words, index, claim, nap) === 'timed-out') stripes.refresh(stripe);
        Atomics.store(words, lane + DOZES, 0);
        now = Atomics.load(words, index);
      }
      if (now === (claim | OFFERED)) {
        if (stripes.takeCalled(stripe, this.#shared, SYNC_LANE, WAS_OFFERED)) break;
        now = Atomics.compareExchange(words, index, now, claim);
      }
      // Taken away: it answered too late.
      if ((now & ~OFFERED) !== claim) {
        thread.claim = 0;
        return undefined;
      }
    }
    thread.taken++;
    thread.dropClaim();
    return true;
  }

  #spinOn(index: number, value: number): number {
    const { words } = this.#stripes;
    for (let i = 0; i < MOST_SPINS; i++) {
      const now = Atomics.load(words, index);
      if (now !== value) return now;
      pause();
    }
    return value;
  }
}
