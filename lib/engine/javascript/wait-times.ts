import { DeadlineTimer } from '../../common/deadline-timer.js';
import { clock } from './host.js';
import type { Pending } from './local-queue.js';
import { patience } from './patience.js';

/** What the times need of the waits. */
export interface TimedWaits {
  /** Whether acquisitions are pending, or queues may sleep in their lanes that nobody needs. */
  readonly needsLooks: boolean;
  /** Calls may have been lost. */
  lookAgain(): void;
  /** The deadline of an acquisition has passed. It is to be removed then. */
  expire(entry: Pending): void;
}

/** When the async acquisitions of one thread and lock are looked at: at their deadlines, and now and then in between. */
export class WaitTimes {
  readonly #waits: TimedWaits;
  readonly #timer = new DeadlineTimer<Pending>(clock, () => this.#onTimer(), false);
  #lookedAt = 0;

  constructor(waits: TimedWaits) {
    this.#waits = waits;
  }

  /** For an acquisition that has just begun to wait. The event loop stays alive until {@link letGo}. */
  start(entry: Pending): void {
    this.#timer.keepAlive(true);
    this.#ringBy(entry.deadline, entry.since);
    this.#timer.add(entry);
  }

  /** For one that waits again. */
  add(entry: Pending): void {
    if (entry.place < 0) this.#timer.add(entry);
  }

  /** Does nothing for one that is not here. */
  remove(entry: Pending): void {
    this.#timer.remove(entry);
  }

  /** Lets the thread end. Where it goes on, the timer is still there. */
  letGo(): void {
    this.#timer.keepAlive(false);
  }

  /** For a deadline, or the next look where that comes before. */
  #ringBy(deadline: number, now: number): void {
    this.#timer.ringBy(Math.min(deadline, now + patience.eventLoop));
  }

  #onTimer(): void {
    try {
      this.#onTime(clock());
    } finally {
      if (this.#waits.needsLooks) this.#ringBy(this.#timer.first?.deadline ?? Infinity, clock());
    }
  }

  #onTime(now: number): void {
    if (now - this.#lookedAt >= patience.eventLoop) {
      this.#lookedAt = now;
      this.#waits.lookAgain();
    }
    for (let entry; (entry = this.#timer.first) !== undefined && entry.deadline <= now;)
      this.#waits.expire(entry);
  }
}
