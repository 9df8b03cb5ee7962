import type { Timed } from '../../common/deadlines.js';
import { performance } from '../../common/host.js';
import type { AsyncWaiter, Request } from '../contract/engine.js';
import type { Mode } from '../contract/mode.js';
import { Queue, type Queued } from './queue.js';
import type { Place, Waiting } from './stripe-lines.js';

/** An acquisition that waits on this thread's event loop. */
export class Pending implements Timed, Queued<Pending>, Waiting {
  readonly waiter: AsyncWaiter;
  readonly number: number;
  readonly stripes: readonly number[];
  readonly mode: Mode;
  /** When the wait started, by `performance.now()`. */
  readonly since: number;
  readonly deadline: number;
  readonly isLasting: boolean;
  gaveWayTo = 0;
  place = -1;
  /** The acquisition holds `stripes[0 … taken)`. */
  taken: number;
  /**
   * Whether the metric `waiting` counts this acquisition. False if a stack overflow ended the call that
   * created the acquisition. Such an acquisition is dropped when its turn comes.
   */
  isWaiting = false;
  queue: StripeQueue | undefined = undefined;
  previous: Pending | undefined = undefined;
  next: Pending | undefined = undefined;

  constructor(waiter: AsyncWaiter, number: number, request: Request, since: number) {
    this.waiter = waiter;
    this.number = number;
    this.stripes = request.stripes;
    this.mode = request.mode;
    this.since = since;
    this.deadline = since + request.timeout;
    this.isLasting = request.timeout === Infinity && request.abortable !== true;
    this.taken = request.taken;
  }

  /** The stripe to take next. */
  get wanted(): number {
    return this.stripes[this.taken]!;
  }
}

/**
 * For this many milliseconds, a thread may pass a stripe between its own waiters although other threads wait
 * for the stripe.
 */
const LONGEST_KEPT = 1;

/** This thread's acquisitions that wait for one stripe. */
export class StripeQueue extends Queue<Pending> {
  readonly stripe: number;
  /** Whether the stripe is free and reserved for this queue. */
  isKept = false;
  /**
   * The start, by `performance.now()`, of the period in which this thread passes the stripe only between its
   * own waiters; 0 outside such a period.
   */
  keptSince = 0;
  /**
   * Identifies the pending `Atomics.waitAsync` call for this stripe; undefined if no such call is pending.
   * `place`: the integer on which the call waits.
   */
  sleep: { readonly place: Place } | undefined = undefined;

  constructor(stripe: number) {
    super();
    this.stripe = stripe;
  }

  mayKeep(): boolean {
    const now = performance.now();
    if (this.keptSince === 0) this.keptSince = now;
    return now - this.keptSince < LONGEST_KEPT;
  }
}
