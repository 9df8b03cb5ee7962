import { DeferredCall } from '../../common/deferred-call.js';
import type { AsyncWaiter } from '../contract/engine.js';
import type { LocalWaits } from './local-waits.js';
import type { LocalWait } from './stripe-state.js';

/**
 * The highest ticket of a waiter in a {@link LocalQueue}. A ticket is this number, minus the number of waiters that had arrived
 * earlier in the stripe's queue in the addon. If the waiter moves there, its ticket determines its place. Waiters in the addon
 * have no negative tickets.
 */
export const LOCAL_TICKET = -2;

/**
 * In milliseconds. Timeouts of at least this length start at the thread's next tick, so that starting a wait does not read the
 * clock.
 */
export const LONG_TIMEOUT = 1000;

/**
 * One thread's acquisitions that wait for a stripe in JavaScript, in arrival order, linked by `previous` and `next`.
 */
export class LocalQueue {
  readonly local: LocalWaits;
  readonly stripe: number;
  first: AsyncWaiter | undefined = undefined;
  last: AsyncWaiter | undefined = undefined;
  /** The acquisition that waits in the addon, ahead of all of these. */
  standIn: AsyncWaiter | undefined = undefined;
  /** Whether the stripe's word has this thread's slot and LOCAL. */
  armed = false;
  /** Whether the thread holds the stripe for the first waiter, which was not notified yet. */
  handing = false;
  /** Whether the first waiter's outcome must report that an earlier holder's thread ended. */
  abandoned = false;
  /**
   * The time until which the stripe may stay in this thread although other threads wait, by `performance.now()`. 0 if not
   * determined yet.
   */
  keptUntil = 0;

  /** Whether this queue is in the list of {@link HandOvers}. */
  isHanded = false;
  nextHanded: LocalQueue | undefined = undefined;

  constructor(local: LocalWaits, stripe: number) {
    this.local = local;
    this.stripe = stripe;
  }

  /** Whether this thread holds the stripe or has a stand-in in the addon: see I9 in `local-waits.ts`. */
  get isLookedAfter(): boolean {
    return this.armed || this.handing || this.standIn !== undefined;
  }

  /** Calls no function. */
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

  /** The waiters of a stripe, in order. */
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
      if (queue.first !== undefined || queue.isLookedAfter || queue.isHanded) continue;
      this.#byStripe.delete(stripe);
      if (this.#last === queue) this.#last = undefined;
    }
  }

  /** Starts the wait of new waiters at `time`. Returns when the first of them is due. */
  date(time: number): number {
    let next = Infinity;
    for (const queue of this.#byStripe.values()) {
      for (let waiter = queue.last; waiter !== undefined; waiter = waiter.previous) {
        if (waiter.since === 0) {
          waiter.since = time;
          next = Math.min(next, time + waiter.timeout);
        } else if (waiter.timeout >= LONG_TIMEOUT) {
          // The waiters before it already have a start time.
          break;
        }
      }
    }
    return next;
  }

  /** Adds the waiters that are due to `due`, ordered by deadline. Returns when the next one is due. */
  collectDue(now: number, due: AsyncWaiter[]): number {
    let next = Infinity;
    for (const queue of this.#byStripe.values()) {
      for (let waiter = queue.first; waiter !== undefined; waiter = waiter.next) {
        const deadline = waiter.since + waiter.timeout;
        if (deadline > now) next = Math.min(next, deadline);
        // The first waiter of a hand-over was granted in time, even if that is delivered late.
        else if (!queue.handing || waiter !== queue.first) due.push(waiter);
      }
    }
    due.sort((a, b) => a.since + a.timeout - (b.since + b.timeout));
    return next;
  }
}

/**
 * Stripes of one thread that were handed over to a waiter of the same thread, but not delivered yet. They are delivered
 * from the microtask queue. If the code that released them blocks its thread before that, the waiter cannot run, so the
 * stripe goes to other threads ({@link takeBack}).
 */
export class HandOvers {
  /** A list linked by `nextHanded`. Queues that are no longer `handing` have released their stripe in the meantime. */
  #first: LocalQueue | undefined = undefined;
  #last: LocalQueue | undefined = undefined;
  readonly #delivery = new DeferredCall(() => this.#deliver());

  /** If this throws, nothing has changed (keeps T1). */
  add(queue: LocalQueue): void {
    this.#delivery.schedule();
    // From here on, no function is called.
    queue.handing = true;
    if (queue.isHanded) return;
    queue.isHanded = true;
    if (this.#last === undefined) this.#first = queue;
    else this.#last.nextHanded = queue;
    this.#last = queue;
  }

  /** Call before the thread blocks. If this throws, it can be called again. */
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
