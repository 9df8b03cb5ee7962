import { DeferredCall } from '../../common/deferred-call.js';
import type { AsyncWaiter } from '../contract/engine.js';
import type { LocalWaits } from './local-waits.js';
import type { LocalWait } from './stripe-state.js';

/**
 * The highest ticket of a waiter in a {@link LocalQueue}. A ticket is `LOCAL_TICKET` minus an arrival count:
 * the number of acquisitions that had joined the addon's queue for the stripe before this waiter arrived. If
 * the waiter moves to the addon's queue, the count determines its place there. A waiter in the addon has a
 * ticket of at least 0.
 */
export const LOCAL_TICKET = -2;

/**
 * A timeout of at least this many milliseconds is long. A long timeout starts to run only when the thread
 * next checks its waiters, so a wait with a long timeout starts without reading the clock.
 */
export const LONG_TIMEOUT = 1000;

/**
 * The acquisitions of one thread that wait in JavaScript for one stripe, in order of arrival. The waiters are
 * linked by their fields `previous` and `next`.
 */
export class LocalQueue {
  readonly isQueue = true;
  readonly local: LocalWaits;
  readonly stripe: number;
  first: AsyncWaiter | undefined = undefined;
  last: AsyncWaiter | undefined = undefined;
  /**
   * The stand-in: an acquisition of this thread that waits in the addon for the same stripe, ahead of all
   * waiters in this queue.
   */
  standIn: AsyncWaiter | undefined = undefined;
  /** Whether the stripe's word has this thread's slot and the flag LOCAL. */
  armed = false;
  /** Whether the thread holds the stripe for the first waiter, but has not notified that waiter yet. */
  handing = false;
  /**
   * Whether the first waiter's outcome must report `abandoned`: the thread of an earlier holder ended without
   * releasing.
   */
  abandoned = false;
  /**
   * While other threads wait, this thread may pass the stripe between its own waiters until this time, by
   * `performance.now()`. 0 if the time is not determined yet.
   */
  keptUntil = 0;

  /** Whether this queue is in the list of {@link HandOvers}. */
  isHanded = false;
  nextHanded: LocalQueue | undefined = undefined;

  constructor(local: LocalWaits, stripe: number) {
    this.local = local;
    this.stripe = stripe;
  }

  /**
   * Whether one of the conditions of I9 in `local-waits.ts` holds: this thread holds the stripe, or has a
   * stand-in in the addon.
   */
  get willBeServed(): boolean {
    return this.armed || this.handing || this.standIn !== undefined;
  }

  /** Removes a waiter from this queue. Calls no function, so it cannot throw (preserves T1). */
  unlink(waiter: AsyncWaiter): void {
    const { previous, next } = waiter;
    if (previous === undefined) this.first = next;
    else previous.next = next;
    if (next === undefined) this.last = previous;
    else next.previous = previous;
    waiter.previous = waiter.next = undefined;
  }
}

/** The queues of one thread for the stripes of one lock. */
export class LocalQueues {
  readonly #byStripe = new Map<number, LocalQueue>();
  /** The queue of the last lookup. */
  #last: LocalQueue | undefined = undefined;

  get(stripe: number): LocalQueue | undefined {
    const last = this.#last;
    if (last !== undefined && last.stripe === stripe) return last;
    const queue = this.#byStripe.get(stripe);
    if (queue !== undefined) this.#last = queue;
    return queue;
  }

  open(local: LocalWaits, stripe: number): LocalQueue {
    const queue = new LocalQueue(local, stripe);
    this.#byStripe.set(stripe, queue);
    this.#last = queue;
    return queue;
  }

  /** Returns the waiters of a stripe, in queue order. */
  waiting(stripe: number, now: number): LocalWait[] {
    const waiting: LocalWait[] = [];
    for (let waiter = this.get(stripe)?.first; waiter !== undefined; waiter = waiter.next) {
      waiting.push({ waiter, waitingFor: waiter.since === 0 ? 0 : Math.max(0, now - waiter.since) });
    }
    return waiting;
  }

  /** Removes unused queues. */
  sweep(): void {
    for (const [stripe, queue] of this.#byStripe) {
      if (queue.first !== undefined || queue.willBeServed || queue.isHanded) continue;
      this.#byStripe.delete(stripe);
      if (this.#last === queue) this.#last = undefined;
    }
  }

  /**
   * Sets `time` as the start of all long timeouts that have not started yet. Returns the earliest deadline of
   * the waiters with such a timeout; Infinity if there are none.
   */
  date(time: number): number {
    let next = Infinity;
    for (const queue of this.#byStripe.values()) {
      for (let waiter = queue.last; waiter !== undefined; waiter = waiter.previous) {
        if (waiter.since === 0) {
          waiter.since = time;
          next = Math.min(next, time + waiter.timeout);
        } else if (waiter.timeout >= LONG_TIMEOUT) {
          // All earlier waiters in the queue already have a start time.
          break;
        }
      }
    }
    return next;
  }

  /**
   * Adds all waiters with a passed deadline to `due`, ordered by deadline. Returns the earliest deadline of
   * the other waiters; Infinity if there are none.
   */
  collectDue(now: number, due: AsyncWaiter[]): number {
    let next = Infinity;
    for (const queue of this.#byStripe.values()) {
      for (let waiter = queue.first; waiter !== undefined; waiter = waiter.next) {
        const deadline = waiter.since + waiter.timeout;
        if (deadline > now) next = Math.min(next, deadline);
        // During a hand-over, the first waiter is not due. It was granted in time, even if the grant is
        // delivered late.
        else if (!queue.handing || waiter !== queue.first) due.push(waiter);
      }
    }
    due.sort((a, b) => a.since + a.timeout - (b.since + b.timeout));
    return next;
  }
}

/**
 * The stripes that this thread is handing over to its own waiters. A hand-over is delivered from the
 * microtask queue. If the code that released the stripe blocks the thread before the delivery, the waiter
 * cannot run. In that case, {@link takeBack} releases the stripe to other threads.
 */
export class HandOvers {
  /**
   * The first queue of a list that is linked by `nextHanded`. If a queue in the list is no longer `handing`,
   * its hand-over must not be delivered.
   */
  #first: LocalQueue | undefined = undefined;
  #last: LocalQueue | undefined = undefined;
  readonly #delivery = new DeferredCall(() => this.#deliver());

  /**
   * Starts a hand-over of the queue's stripe to its first waiter. If this throws, nothing has changed (keeps
   * T1).
   */
  add(queue: LocalQueue): void {
    this.#delivery.schedule();
    // From here on, no function is called (preserves T1).
    queue.handing = true;
    if (queue.isHanded) return;
    queue.isHanded = true;
    if (this.#last === undefined) this.#first = queue;
    else this.#last.nextHanded = queue;
    this.#last = queue;
  }

  /** Cancels all hand-overs. Call this before the thread blocks. If this throws, it can be called again. */
  takeBack(): void {
    for (let queue = this.#first; queue !== undefined; queue = queue.nextHanded) {
      if (queue.handing) queue.local.takeBack(queue);
    }
  }

  #deliver(): void {
    for (let queue; (queue = this.#first) !== undefined;) {
      this.#first = queue.nextHanded;
      if (this.#first === undefined) this.#last = undefined;
      queue.nextHanded = undefined;
      queue.isHanded = false;
      if (!queue.handing) continue;
      queue.handing = false;
      queue.local.deliver(queue);
    }
  }
}
