import type { Timed } from '../../common/deadlines.js';
import type { AsyncWaiter, Request } from '../contract/engine.js';
import type { Mode } from '../contract/mode.js';

/** An acquisition that waits on this thread's event loop. */
export class Pending implements Timed {
  readonly waiter: AsyncWaiter;
  readonly stripes: readonly number[];
  readonly mode: Mode;
  /** When it began to wait, on the clock of `performance.now()`. */
  readonly since: number;
  readonly deadline: number;
  /** What a traced acquisition says of itself. */
  readonly note: string | undefined;
  place = -1;
  /** It holds `stripes[0 … taken)`. */
  taken: number;
  /** How many of these its caller still has: the call that was to make it has failed, and it must not give them back. */
  kept = 0;
  /** It is counted in the metric `waiting`. */
  isCounted = false;
  /** It is not settled any more, but may have stripes that it has yet to give back. */
  isGivenUp = false;
  /** `waiting` in a queue; `ready`: has all its stripes; put `aside` while its thread is blocked; `settled`. */
  state: 'waiting' | 'ready' | 'aside' | 'settled' = 'waiting';
  /** Where it waits, and its neighbours there. */
  queue: LocalQueue | undefined = undefined;
  previous: Pending | undefined = undefined;
  next: Pending | undefined = undefined;

  constructor(waiter: AsyncWaiter, request: Request, since: number) {
    this.waiter = waiter;
    this.stripes = request.stripes;
    this.mode = request.mode;
    this.since = since;
    this.deadline = since + request.timeout;
    this.taken = request.taken;
    this.note = request.note;
  }

  /** The stripe that it is to take next. */
  get wanted(): number {
    return this.stripes[this.taken] ?? -1;
  }
}

/** This thread's waiters for one stripe, in order of arrival, and how the thread waits for it. */
export class LocalQueue {
  readonly stripe: number;
  first: Pending | undefined = undefined;
  #last: Pending | undefined = undefined;
  /** It sleeps in the stripe's async lane: a `waitAsync` is under way. There is never more than one. */
  asleep = false;
  /** It is counted in SLEEPERS. */
  isCounted = false;
  /** It is counted in WRITERS. */
  isCountedAsWriter = false;
  /** The mode in which the stripe was taken for the first waiter, which is yet to have it. */
  got: Mode | undefined = undefined;
  /** This thread's claim to be the lane's head, or 0. */
  claim = 0;
  /** A `waitAsync` on the claim is under way; it may be that of an earlier claim. */
  watchesClaim = false;
  /** Since when the stripe has gone from one waiter of this thread to the next, or 0. */
  keptSince = 0;
  /** Nobody waited here at the last look. */
  wasIdle = false;

  constructor(stripe: number) {
    this.stripe = stripe;
  }

  push(entry: Pending): void {
    entry.queue = this;
    entry.previous = this.#last;
    if (this.#last === undefined) this.first = entry;
    else this.#last.next = entry;
    this.#last = entry;
  }

  unshift(entry: Pending): void {
    entry.queue = this;
    entry.next = this.first;
    if (this.first === undefined) this.#last = entry;
    else this.first.previous = entry;
    this.first = entry;
  }

  remove(entry: Pending): void {
    if (entry.previous === undefined) this.first = entry.next;
    else entry.previous.next = entry.next;
    if (entry.next === undefined) this.#last = entry.previous;
    else entry.next.previous = entry.previous;
    entry.queue = entry.previous = entry.next = undefined;
  }
}
