/**
 * What a thread's async acquisitions do while the thread is blocked in `acquireSync`, of whatever lock. Nothing can
 * be delivered to them then, so whatever they had been given others would wait for in vain, and the thread might
 * wait for one of those: a deadlock that is nobody's fault.
 */
export interface GivesWay {
  /** Leaves the place at the head of every queue. */
  withdrawClaims(): void;
  /** Gives back all that was taken for acquisitions that are not settled yet. */
  giveBack(): void;
  readonly holdsAny: boolean;
  /** The thread runs again. */
  resume(): void;
}

/**
 * For so long, in milliseconds, a blocked thread lets its async acquisitions keep what was taken for them: most
 * waits are over by then, and one of many stripes need not start over.
 */
const GRACE = 1;

/** All of this thread that have acquisitions pending. */
const pending = new Set<GivesWay>();

export function joinPending(waits: GivesWay): void {
  pending.add(waits);
}

export function leavePending(waits: GivesWay): void {
  pending.delete(waits);
}

/** One sync wait of this thread. */
export class BlockedThread {
  #since = 0;
  #gaveBack = false;

  /** To be called before each sleep. Returns how long it may last, `nap` at most. */
  beforeSleep(nap: number): number {
    if (pending.size === 0 || this.#gaveBack) return nap;
    const now = performance.now();
    if (this.#since === 0) {
      this.#since = now;
      for (const waits of pending) waits.withdrawClaims();
    }
    const left = this.#since + GRACE - now;
    let holdsAny = false;
    for (const waits of pending) holdsAny ||= waits.holdsAny;
    if (holdsAny && left > 0) return Math.min(nap, left);
    this.giveBack();
    return nap;
  }

  giveBack(): void {
    this.#gaveBack = true;
    for (const waits of pending) {
      waits.withdrawClaims();
      waits.giveBack();
    }
  }

  /** To be called when the wait is over. */
  end(): void {
    if (this.#since === 0 && !this.#gaveBack) return;
    for (const waits of pending) waits.resume();
  }
}
