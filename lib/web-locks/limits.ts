import { DeadlineTimer } from '../common/deadline-timer.js';
import type { Timed } from '../common/deadlines.js';
import { performance } from '../common/host.js';

/** Something that can run out of time. */
export interface Expiring {
  /** Called by a timer. May be called although it is no longer of interest. */
  expire(): void;
}

/** The end of a request's time. */
export class Limit implements Timed {
  /** Milliseconds. */
  readonly timeout: number;
  readonly deadline: number;
  place = -1;
  readonly #request: Expiring;

  constructor(request: Expiring, timeout: number) {
    this.timeout = timeout;
    this.deadline = performance.now() + timeout;
    this.#request = request;
    timer.add(this);
  }

  /** It will not expire any more. */
  end(): void {
    timer.remove(this);
  }

  expire(): void {
    this.#request.expire();
  }
}

/** The deadlines of all requests of this thread. What keeps the event loop alive is that they wait. */
const timer = new DeadlineTimer<Limit>(() => performance.now(), onTime, false);

function onTime(): void {
  const now = performance.now();
  try {
    for (let limit; (limit = timer.first) !== undefined && limit.deadline <= now;) {
      timer.remove(limit);
      limit.expire();
    }
  } finally {
    timer.rearm();
  }
}
