import { availableParallelism } from 'node:os';
import type { Mode } from '../contract/mode.js';
import type { BlockedThread } from './blocking.js';
import { clock } from './host.js';
import {
  CALLED,
  type Cause,
  CLAIM,
  DOZES,
  EVENTS,
  isWriter,
  laneIndex,
  LOOKS,
  OFFERED,
  SLEEPERS,
  SYNC_LANE,
  WAS_OFFERED,
  WRITERS,
} from './lanes.js';
import { patience } from './patience.js';
import type { Stripes } from './stripes.js';

/** How often a thread looks at a word before it sleeps: for 10 to 30 microseconds, about what it takes to wake a thread. */
const MOST_SPINS = availableParallelism() > 1 ? 500 : 0;
const LEAST_SPINS = MOST_SPINS >> 4;

/** From Node 24 on. */
const pause = (Atomics as { pause?: () => void }).pause ?? ((): void => undefined);

/** Waits for a stripe, blocking the thread. */
export class SyncWait {
  readonly #stripes: Stripes;
  /** Halved when spinning got nothing, doubled when it did. */
  #spins = MOST_SPINS;

  constructor(stripes: Stripes) {
    this.#stripes = stripes;
  }

  /** True: taken, and noted in `thread`. False: the deadline has passed. */
  waitFor(stripe: number, mode: Mode, deadline: number, thread: BlockedThread): boolean {
    if (this.#spin(stripe, mode)) {
      thread.taken++;
      return true;
    }
    const attempt = new Attempt(this.#stripes, stripe, mode, deadline, thread);
    let got = attempt.inLane();
    while (got === undefined) got = attempt.inLane();
    if (got) this.#stripes.entered(stripe, mode);
    return got;
  }

  #spin(stripe: number, mode: Mode): boolean {
    const { words } = this.#stripes;
    for (let i = 0; i < this.#spins; i++) {
      if (words.arrive(stripe, mode)) {
        this.#spins = Math.min(2 * this.#spins, MOST_SPINS);
        return true;
      }
      pause();
    }
    this.#spins = Math.max(this.#spins >> 1, LEAST_SPINS);
    return false;
  }
}

/** A sync wait for one stripe. */
class Attempt {
  readonly #stripes: Stripes;
  readonly #stripe: number;
  readonly #mode: Mode;
  readonly #deadline: number;
  readonly #thread: BlockedThread;
  #nap = patience.head;
  #called = false;

  constructor(stripes: Stripes, stripe: number, mode: Mode, deadline: number, thread: BlockedThread) {
    this.#stripes = stripes;
    this.#stripe = stripe;
    this.#mode = mode;
    this.#deadline = deadline;
    this.#thread = thread;
  }

  /** Sleeps in the lane until called, or as its head until offered the stripe. Undefined: not decided yet. */
  inLane(): boolean | undefined {
    const stripes = this.#stripes;
    const stripe = this.#stripe;
    const mode = this.#mode;
    const { memory } = stripes.lanes;
    const thread = this.#thread;
    if (this.#called) {
      const claim = stripes.lanes.claim(stripe, SYNC_LANE, mode);
      thread.stripe = stripe;
      thread.claim = claim;
      if (claim !== 0) return this.#asHead(claim);
    }
    const index = laneIndex(stripe, SYNC_LANE) + EVENTS;
    this.#enterLane();
    const events = Atomics.load(memory, index);
    if (stripes.announce(stripe, mode)) {
      thread.taken++;
      thread.leaveLane();
      return true;
    }
    const left = this.#deadline - clock();
    let cause: Cause = CALLED;
    if (left > 0) {
      const nap = thread.beforeSleep(Math.min(left, this.#nap));
      if (Atomics.wait(memory, index, events, nap) === 'timed-out') cause = LOOKS;
    }
    thread.leaveLane();
    if (left <= 0) {
      stripes.relay(stripe);
      return false;
    }
    if (cause === LOOKS) {
      this.#nap = Math.min(2 * this.#nap, patience.sleeper);
      stripes.refresh(stripe);
    }
    this.#called = true;
    if (!stripes.takeCalled(stripe, mode, SYNC_LANE, cause)) return undefined;
    thread.taken++;
    return true;
  }

  /** I2 (a). Nothing can come between a count and its note. */
  #enterLane(): void {
    const { memory } = this.#stripes.lanes;
    const index = laneIndex(this.#stripe, SYNC_LANE);
    const thread = this.#thread;
    thread.stripe = this.#stripe;
    Atomics.add(memory, index + SLEEPERS, 1);
    thread.sleeps = true;
    if (!isWriter(this.#mode)) return;
    Atomics.add(memory, index + WRITERS, 1);
    thread.sleepsAsWriter = true;
  }

  /** Sleeps until offered the stripe. */
  #asHead(claim: number): boolean | undefined {
    const stripes = this.#stripes;
    const stripe = this.#stripe;
    const thread = this.#thread;
    const { memory } = stripes.lanes;
    const lane = laneIndex(stripe, SYNC_LANE);
    const index = lane + CLAIM;
    for (;;) {
      if (stripes.announce(stripe, this.#mode)) break;
      let now = this.#spinOn(index, claim);
      if (now === claim) {
        const left = this.#deadline - clock();
        if (left <= 0) {
          thread.withdrawClaim();
          return false;
        }
        const nap = thread.beforeSleep(Math.min(left, patience.head));
        Atomics.store(memory, lane + DOZES, 1);
        if (Atomics.wait(memory, index, claim, nap) === 'timed-out') stripes.refresh(stripe);
        Atomics.store(memory, lane + DOZES, 0);
        now = Atomics.load(memory, index);
      }
      if (now === (claim | OFFERED)) {
        if (stripes.takeCalled(stripe, this.#mode, SYNC_LANE, WAS_OFFERED)) break;
        now = Atomics.compareExchange(memory, index, now, claim);
      }
      // The claim is void: it answered too late.
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
    const { memory } = this.#stripes.lanes;
    for (let i = 0; i < MOST_SPINS; i++) {
      const now = Atomics.load(memory, index);
      if (now !== value) return now;
      pause();
    }
    return value;
  }
}
