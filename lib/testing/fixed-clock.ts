import { invalidArgType, outOfRange } from '../common/errors.js';
import type { AdvancingClock } from '../lease/contract/lease-store.js';

/**
 * A clock that stands still until it is advanced, so that tests need not sleep. Advancing it notifies
 * managers and waiting acquisitions synchronously, on the thread that advances it.
 */
export class FixedClock implements AdvancingClock {
  #now: number;
  readonly #listeners = new Set<() => void>();

  /** Starts at this time in milliseconds. Default 0. */
  constructor(now = 0) {
    if (typeof now !== 'number') throw invalidArgType('now', 'a number', now);
    if (!Number.isFinite(now)) throw outOfRange('now', 'a finite number of milliseconds', now);
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  /** Advances by this many milliseconds, 0 or more. */
  advance(ms: number): void {
    if (typeof ms !== 'number') throw invalidArgType('ms', 'a number', ms);
    if (!(ms >= 0 && ms < Infinity)) throw outOfRange('ms', 'a finite number of milliseconds from 0', ms);
    this.#now += ms;
    for (const listener of [...this.#listeners]) listener();
  }

  /** Calls `listener` after each {@link advance}, until the returned function is called. */
  onAdvance(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}
