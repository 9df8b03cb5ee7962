import { DeferredCall } from '../../common/deferred-call.js';
import type { AsyncWaiter } from '../contract/engine.js';
import type { LocalWaits } from './local-waits.js';
import type { LocalWait } from './stripe-state.js';

/**
 * A waiter in a {@link LocalQueue} has this ticket or a lower one, by the number of the waiters that had come to the stripe's
 * queue in the addon before it. So the addon knows its place if it is to wait there. No waiter of the addon has a negative
 * ticket.
 */
export const LOCAL_TICKET = -2;

/** Milliseconds from which on a timeout counts from the next tick of the thread, so that nobody reads the clock at a start. */
export const LONG_TIMEOUT = 1000;

/** One thread's acquisitions that wait for a stripe in JavaScript, in order of arrival, linked by `previous` and `next`. */
export class LocalQueue {
  readonly local: LocalWaits;
  readonly stripe: number;
  first: AsyncWaiter | undefined = undefined;
  last: AsyncWaiter | undefined = undefined;
  /** The one that waits in the addon, before all of these. */
  standIn: AsyncWaiter | undefined = undefined;
  /** The stripe's word has this thread's slot and LOCAL. */
  armed = false;
  /** The thread holds the stripe for the first waiter, who has yet to learn of it. */
  handing = false;
  /** The first waiter will learn that an earlier holder's thread ended. */
  abandoned = false;
  /** While other threads wait: until when the stripe may stay in this thread, in milliseconds. 0: to be asked. */
  keptUntil = 0;

  /** It is in the list of {@link HandOvers}. */
  isHanded = false;
  nextHanded: LocalQueue | undefined = undefined;

  constructor(local: LocalWaits, stripe: number) {
    this.local = local;
    this.stripe = stripe;
  }

  /** The stripe is held by this thread, or another one of it waits in the addon: see I9 in `local-waits.ts`. */
  get isLookedAfter(): boolean {
    return this.armed || this.handing || this.standIn !== undefined;
  }

  /** Calls nothing. */
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
  /** The one that was last looked for. */
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

  /** What waits in one of them, in order. */
  waiting(stripe: number, now: number): LocalWait[] {
    const waiting: LocalWait[] = [];
    for (let waiter = this.get(stripe)?.first; waiter !== undefined; waiter = waiter.next) {
      waiting.push({ waiter, waitingFor: waiter.since === 0 ? 0 : Math.max(0, now - waiter.since) });
    }
    return waiting;
  }

  /** Forgets those that are not used any more. */
  sweep(): void {
    for (const [stripe, queue] of this.#byStripe) {
      if (queue.first !== undefined || queue.isLookedAfter || queue.isHanded) continue;
      this.#byStripe.delete(stripe);
      if (this.#last === queue) this.#last = undefined;
    }
  }

  /** Those that are new wait since `time` from now on. Returns when the first of them is due. */
  date(time: number): number {
    let next = Infinity;
    for (const queue of this.#byStripe.values()) {
      for (let waiter = queue.last; waiter !== undefined; waiter = waiter.previous) {
        if (waiter.since === 0) {
          waiter.since = time;
          next = Math.min(next, time + waiter.timeout);
        } else if (waiter.timeout >= LONG_TIMEOUT) {
          // Those before it were new at the same tick, or earlier.
          break;
        }
      }
    }
    return next;
  }

  /** Adds those that are due by then to `due`, in the order of their times. Returns when the next is due. */
  collectDue(now: number, due: AsyncWaiter[]): number {
    let next = Infinity;
    for (const queue of this.#byStripe.values()) {
      for (let waiter = queue.first; waiter !== undefined; waiter = waiter.next) {
        const deadline = waiter.since + waiter.timeout;
        if (deadline > now) next = Math.min(next, deadline);
        // A grant in time counts, however late it is delivered.
        else if (!queue.handing || waiter !== queue.first) due.push(waiter);
      }
    }
    due.sort((a, b) => a.since + a.timeout - (b.since + b.timeout));
    return next;
  }
}

/**
 * Stripes of one thread that were handed over to a waiter of the same thread, and are yet to be delivered. That happens
 * from the microtask queue: if the code that released then blocks its thread, the waiter cannot run, and what it
 * was given must go to others ({@link takeBack}).
 */
export class HandOvers {
  /** A list by `nextHanded`. Those that are not `handing` any more have been given back since. */
  #first: LocalQueue | undefined = undefined;
  #last: LocalQueue | undefined = undefined;
  readonly #delivery = new DeferredCall(() => this.#deliver());

  /** If this throws, nothing has changed (keeps T1). */
  add(queue: LocalQueue): void {
    this.#delivery.schedule();
    // From here on this calls nothing.
    queue.handing = true;
    if (queue.isHanded) return;
    queue.isHanded = true;
    if (this.#last === undefined) this.#first = queue;
    else this.#last.nextHanded = queue;
    this.#last = queue;
  }

  /** The thread is about to block. If this throws, it can be called again. */
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
