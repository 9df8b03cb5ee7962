import { availableParallelism } from 'node:os';
import type { BlockedThread } from './blocking.js';
import { patience } from './patience.js';
import { CLAIM, EVENTS, laneIndex, OFFERED, type Stripes, SYNC_LANE } from './stripes.js';

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

  /** True: taken. False: the deadline has passed. */
  waitFor(stripe: number, shared: boolean, deadline: number, thread: BlockedThread): boolean {
    if (this.#spin(stripe, shared)) return true;
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
  /** The last look; see `Stripes.pendingCall`. */
  #seenCall = -1;
  #lookedAt = 0;

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
    if (this.#called) {
      const claim = stripes.claim(stripe, SYNC_LANE, shared);
      if (claim !== 0) return this.#asHead(claim);
    }
    const index = laneIndex(stripe, SYNC_LANE) + EVENTS;
    stripes.countSleeper(stripe, SYNC_LANE, 1);
    const events = Atomics.load(stripes.words, index);
    let woken: 'ok' | 'not-equal' | 'timed-out' = 'ok';
    const got = stripes.announce(stripe, shared);
    const left = this.#deadline - performance.now();
    if (!got && left > 0) {
      const nap = this.#thread.beforeSleep(Math.min(left, this.#nap));
      woken = Atomics.wait(stripes.words, index, events, nap);
    }
    stripes.countSleeper(stripe, SYNC_LANE, -1);
    if (got) return true;
    if (left <= 0) {
      stripes.relay(stripe);
      return false;
    }
    if (woken === 'timed-out') {
      this.#nap = Math.min(2 * this.#nap, patience.sleeper);
      this.#lookAgain();
    }
    this.#called = true;
    return stripes.takeCalled(stripe, shared, false) ? true : undefined;
  }

  /** Sleeps until offered the stripe. */
  #asHead(claim: number): boolean | undefined {
    const stripes = this.#stripes;
    const stripe = this.#stripe;
    const index = laneIndex(stripe, SYNC_LANE) + CLAIM;
    for (;;) {
      if (stripes.announce(stripe, this.#shared)) break;
      let now = this.#spinOn(index, claim);
      if (now === claim) {
        const left = this.#deadline - performance.now();
        if (left <= 0) {
          stripes.withdraw(stripe, SYNC_LANE, claim);
          return false;
        }
        const nap = this.#thread.beforeSleep(Math.min(left, patience.head));
        if (Atomics.wait(stripes.words, index, claim, nap) === 'timed-out') this.#lookAgain();
        now = Atomics.load(stripes.words, index);
      }
      if (now === (claim | OFFERED)) {
        if (stripes.takeCalled(stripe, this.#shared, true)) break;
        now = Atomics.compareExchange(stripes.words, index, now, claim);
      }
      // Taken away: it answered too late.
      if ((now & ~OFFERED) !== claim) return undefined;
    }
    stripes.dropClaim(stripe, SYNC_LANE, claim);
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

  #lookAgain(): void {
    const now = performance.now();
    // A nap may be cut short by the thread's other waits.
    if (now - this.#lookedAt < patience.head / 2) return;
    this.#lookedAt = now;
    const call = this.#stripes.pendingCall(this.#stripe);
    if (call !== -1 && call === this.#seenCall) this.#stripes.refresh(this.#stripe);
    this.#seenCall = call;
  }
}
