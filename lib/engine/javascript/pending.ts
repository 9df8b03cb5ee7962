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
  /** When it began to wait, on the clock of `performance.now()`. */
  readonly since: number;
  readonly deadline: number;
  readonly isLasting: boolean;
  gaveWayTo = 0;
  place = -1;
  /** It holds `stripes[0 … taken)`. */
  taken: number;
  /** It is counted in the metric `waiting`. False if a stack overflow ended the call that made it: then it is nobody's. */
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

  /** The stripe that it is to take next. */
  get wanted(): number {
    return this.stripes[this.taken]!;
  }
}

/**
 * For so long, in milliseconds, a stripe that others wait for may go from one waiter of this thread to the next without
 * the detour through the event loop.
 */
const LONGEST_KEPT = 1;

/** This thread's acquisitions that wait for one stripe. */
export class StripeQueue extends Queue<Pending> {
  readonly stripe: number;
  /** The stripe is reserved for this queue. */
  isKept = false;
  /** Since when the stripe has gone from one waiter of this thread to the next, or 0. */
  keptSince = 0;
  /** The `waitAsync` under way, and where. */
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
