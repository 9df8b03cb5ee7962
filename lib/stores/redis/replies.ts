// The global of this name is a getter, which costs more than the reading.
import { performance } from 'node:perf_hooks';
import { LeaseStoreError } from '../../lease/errors.js';

/** Milliseconds: no timer waits for longer. */
const LONGEST = 2 ** 31 - 1;

/** A reply that somebody waits for. */
export interface Awaited {
  readonly due: number;
  readonly reject: (error: LeaseStoreError) => void;
  isLate: boolean;
}

/**
 * The time limit of all replies that are awaited. It is the same for each, so the first that was asked for is due first,
 * and one timer is enough; it may come for nothing, as setting and clearing timers costs more. It is the client's
 * connection that keeps the process alive.
 */
export class Replies {
  readonly #timeout: number;
  readonly #awaited = new Set<Awaited>();
  #timer: NodeJS.Timeout | undefined;

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
    this.#timer = setTimeout(() => this.#look(), Math.ceil(milliseconds)).unref();
  }

  #look(): void {
    this.#timer = undefined;
    const now = performance.now();
    for (const awaited of this.#awaited) {
      if (awaited.due > now) {
        this.#lookIn(awaited.due - now);
        return;
      }
      this.#awaited.delete(awaited);
      awaited.isLate = true;
      awaited.reject(new LeaseStoreError(`Redis has not answered within ${this.#timeout} ms`));
    }
  }
}
