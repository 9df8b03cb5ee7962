import { Alarm } from './alarm.js';
import { Deadlines, type Timed } from './deadlines.js';

/**
 * Any number of deadlines behind one timer. When it rings, its owner takes out what is due, and calls {@link rearm}.
 *
 * Removing an entry does not change the timer: a needless ring costs less than setting the timer again each time.
 */
export class DeadlineTimer<T extends Timed> {
  readonly #entries = new Deadlines<T>();
  readonly #now: () => number;
  readonly #alarm: Alarm;

  /** `now`: the clock of the deadlines, in milliseconds. For the other parameters see {@link Alarm}. */
  constructor(now: () => number, ring: () => void, keepsAlive: boolean, longest?: number) {
    this.#now = now;
    this.#alarm = new Alarm(ring, keepsAlive, longest);
  }

  /** The entry that is due first. */
  get first(): T | undefined {
    return this.#entries.first;
  }

  /** In no order. */
  toArray(): T[] {
    return this.#entries.toArray();
  }

  /**
   * Ignores an entry that is never due. If this throws because no timer could be set, the entry is added nevertheless;
   * the next call that sets the timer includes it.
   */
  add(entry: T): void {
    this.#entries.add(entry);
    if (entry.deadline < this.#alarm.due) this.rearm();
  }

  /** Does nothing for an entry that is not here. */
  remove(entry: T): void {
    this.#entries.remove(entry);
  }

  /** Rings at this time at the latest, even if nothing is due then. */
  ringBy(at: number): void {
    if (at < this.#alarm.due) this.#alarm.setFor(at, at - this.#now());
  }

  /** Sets the timer for the entry that is due first, unless it rings earlier. */
  rearm(): void {
    const { first } = this.#entries;
    if (first !== undefined) this.ringBy(first.deadline);
  }

  /** Whether the timer keeps the event loop alive, from now on. */
  keepAlive(keeps: boolean): void {
    this.#alarm.keepAlive(keeps);
  }
}
