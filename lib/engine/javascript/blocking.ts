import { patience } from './patience.js';

/**
 * What a thread's async acquisitions do while the thread is blocked in `acquireSync`, of whatever lock. Nothing can
 * be delivered to them then, so whatever they had been given others would wait for in vain, and the thread might
 * wait for one of those: a deadlock that is nobody's fault.
 */
export interface GivesWay {
  /** Leaves the place at the head of every lane. */
  withdrawClaims(): void;
  /** Gives back all that was taken for acquisitions that are not settled yet. */
  giveBack(): void;
  /** Answers calls that this thread cannot follow, by calling others. False: none can come. */
  relayCalls(): boolean;
  readonly holdsAny: boolean;
  /** The thread runs again. */
  resume(): void;
  /** The thread ends, and can follow no more calls: calls others in its stead. */
  leave(): void;
}

/**
 * For so long, in milliseconds, a blocked thread lets its async acquisitions keep what was taken for them: most
 * waits are over by then, and one of many stripes need not start over.
 */
const GRACE = 1;
/** All of this thread that have acquisitions pending, or may be called. */
const joined = new Set<GivesWay>();

let listensForEnd = false;

export function joinGivesWay(waits: GivesWay): void {
  joined.add(waits);
  if (listensForEnd) return;
  listensForEnd = true;
  // Not emitted where a thread is terminated: those who are not called then look for themselves in the end.
  process.once('exit', () => {
    for (const waits of joined) waits.leave();
  });
}

export function leaveGivesWay(waits: GivesWay): void {
  joined.delete(waits);
}

/** One sync wait of this thread. */
export class BlockedThread {
  #since = 0;
  #interval = GRACE;
  #gaveBack = false;

  /** To be called before each sleep. Returns how long it may last, `nap` at most. */
  beforeSleep(nap: number): number {
    if (joined.size === 0) return nap;
    const now = performance.now();
    if (this.#since === 0) {
      this.#since = now;
      for (const waits of joined) waits.withdrawClaims();
    }
    let cut = false;
    if (!this.#gaveBack) {
      for (const waits of joined) cut ||= waits.holdsAny;
      if (!cut || now - this.#since >= GRACE) this.giveBack();
    }
    for (const waits of joined) cut = waits.relayCalls() || cut;
    const interval = this.#interval;
    if (!cut || interval > patience.relay) return nap;
    this.#interval = 2 * interval;
    return Math.min(nap, interval);
  }

  giveBack(): void {
    this.#gaveBack = true;
    for (const waits of joined) {
      waits.withdrawClaims();
      waits.giveBack();
    }
  }

  /** To be called when the wait is over. */
  end(): void {
    if (this.#since === 0 && !this.#gaveBack) return;
    for (const waits of joined) waits.resume();
  }
}
