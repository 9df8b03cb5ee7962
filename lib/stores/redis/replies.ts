// The global of this name is a getter, which costs more than the reading.
import { performance } from 'node:perf_hooks';
import { LeaseStoreError } from '../../lease/contract/errors.js';

/** Milliseconds: no timer waits for longer. */
const LONGEST = 2 ** 31 - 1;
/** Milliseconds by which a timer is late only where the event loop was blocked. */
const BLOCKED = 5;

/** A reply that somebody waits for. */
export interface Awaited {
  due: number;
  readonly reject: (error: LeaseStoreError) => void;
  isLate: boolean;
}

/**
 * The time limit of all replies that are awaited. It is the same for each, so the first that was asked for is due first,
 * and one timer is enough; it may come for nothing, as setting and clearing timers costs more. It is the client's
 * connection that keeps the process alive.
 *
 * While the event loop is blocked nothing is heard, and some clients send nothing: that is no fault of the server. So
 * there is as much time after that as the timer was late, up to the limit once more, and the loop has turned before the
 * verdict: the answer may lie in the socket.
 */
export class Replies {
  readonly #timeout: number;
  readonly #awaited = new Set<Awaited>();
  #timer: NodeJS.Timeout | undefined;
  #timerDue = 0;

  /** `timeout`: in milliseconds. */
  constructor(timeout: number) {
    this.#timeout = timeout;
  }

  /** `reject` is called when the time is over before {@link arrived} is. */
  expect(reject: (error: LeaseStoreError) => void): Awaited {
    const awaited = { due: performance.now() + this.#timeout, reject, isLate: false };
    if (this.#timeout <= LONGEST) {
      this.#awaited.add(awaited);
      if (this.#timer === undefined) this.#lookIn(this.#timeout);
    }
    return awaited;
  }

  /** False if it came too late. */
  arrived(awaited: Awaited): boolean {
    this.#awaited.delete(awaited);
    return !awaited.isLate;
  }

  #lookIn(milliseconds: number): void {
    const delay = Math.ceil(milliseconds);
    this.#timerDue = performance.now() + delay;
    this.#timer = setTimeout(() => this.#look(), delay).unref();
  }

  #look(): void {
    const now = performance.now();
    const late = now - this.#timerDue;
    if (late >= BLOCKED) {
      const soonest = now + Math.min(late, this.#timeout);
      for (const awaited of this.#awaited) awaited.due = Math.max(awaited.due, soonest);
      this.#next(now);
      return;
    }
    // Timers come before sockets, and these before immediates.
    setImmediate(() => this.#judge(now));
  }

  /** Those that were due then. */
  #judge(now: number): void {
    for (const awaited of this.#awaited) {
      if (awaited.due > now) break;
      this.#awaited.delete(awaited);
      awaited.isLate = true;
      awaited.reject(new LeaseStoreError(`Redis has not answered within ${this.#timeout} ms`));
    }
    this.#next(performance.now());
  }

  #next(now: number): void {
    this.#timer = undefined;
    const [first] = this.#awaited;
    if (first !== undefined) this.#lookIn(Math.max(0, first.due - now));
  }
}
