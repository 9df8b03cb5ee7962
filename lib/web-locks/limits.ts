import { DeadlineTimer, type Timed } from '../common/deadlines.js';
import { performance } from '../common/host.js';

/** A request with a timeout. */
export interface Expiring {
  /** Called at the timeout. The request may already have ended. */
  expire(): void;
}

/** The timeout of a request. */
export class Limit implements Timed {
  /** The timeout in milliseconds. */
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

  /** Cancels the timeout. */
  end(): void {
    timer.remove(this);
  }

  expire(): void {
    this.#request.expire();
  }
}

/**
 * The deadlines of this thread's requests. The timer does not keep the event loop alive,
 * because waiting requests already do.
 */
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
