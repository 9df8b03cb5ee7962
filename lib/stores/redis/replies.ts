import { LeaseStoreError } from '../../lease/errors.js';
import { Schedule, type Due } from '../../lease/schedule.js';

/** Milliseconds: no timer waits for longer. */
const LONGEST = 2 ** 31 - 1;

/** A reply that somebody waits for, until its time is over. */
class Awaited implements Due {
  deadline = Infinity;
  place = -1;
  isLate = false;
  readonly #timeout: number;
  readonly #reject: (error: LeaseStoreError) => void;

  constructor(timeout: number, reject: (error: LeaseStoreError) => void) {
    this.#timeout = timeout;
    this.#reject = reject;
  }

  run(): void {
    this.isLate = true;
    this.#reject(new LeaseStoreError(`Redis has not answered within ${this.#timeout} ms`));
  }
}

export type { Awaited };

/** The time limit of all replies that are awaited: one timer. It is the client's connection that keeps the process alive. */
export class Replies {
  readonly #timeout: number;
  readonly #schedule = new Schedule<Awaited>(undefined, false);

  /** `timeout`: in milliseconds. */
  constructor(timeout: number) {
    this.#timeout = timeout;
  }

  /** `reject` is called when the time is over before {@link arrived} is. */
  expect(reject: (error: LeaseStoreError) => void): Awaited {
    const awaited = new Awaited(this.#timeout, reject);
    if (this.#timeout <= LONGEST) this.#schedule.set(awaited, this.#schedule.now() + this.#timeout);
    return awaited;
  }

  /** False if it came too late. */
  arrived(awaited: Awaited): boolean {
    this.#schedule.clear(awaited);
    return !awaited.isLate;
  }
}
