import type { Timed } from '../../common/deadlines.js';
import type { AsyncWaiter, Request } from '../contract/engine.js';
import type { Mode } from '../contract/mode.js';
import { Queue, type Queued } from './queue.js';
import type { Place } from './stripe-lines.js';

/** An acquisition that waits on this thread's event loop. */
export class Pending implements Timed, Queued<Pending> {
  readonly waiter: AsyncWaiter;
  readonly number: number;
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
  /** It is counted in the metric `waiting`. */
  isCounted = false;
  /** A stack overflow ended the call that was to make it: nobody waits for its outcome. */
  isLost = false;
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
    this.taken = request.taken;
    this.note = request.note;
  }

  /** The stripe that it is to take next. */
  get wanted(): number {
    return this.stripes[this.taken]!;
  }
}

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
}
