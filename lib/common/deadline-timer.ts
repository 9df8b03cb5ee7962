import { Alarm } from './alarm.js';
import { Deadlines, type Timed } from './deadlines.js';
import { DeferredCall } from './deferred-call.js';

/**
 * Many deadlines on one timer. When it fires, its owner removes the entries that are due, and calls {@link rearm}.
 *
 * Removing an entry does not reset the timer: firing needlessly costs less than resetting it each time.
 *
 * The host's timers are called only from the microtask queue, where the stack is empty. A stack overflow within
 * `setTimeout` can leave Node with a list of timers that never fires, and later timers with the same delay would join
 * that list.
 */
export class DeadlineTimer<T extends Timed> {
  readonly #entries = new Deadlines<T>();
  readonly #now: () => number;
  readonly #alarm: Alarm;
  readonly #arming = new DeferredCall(() => this.rearm());
  /** The earliest time passed to {@link fireBy} for which the timer is not yet set. */
  #fireBy = Infinity;
  #keepsAlive: boolean;

  /** `now` is the clock of the deadlines, in milliseconds. {@link Alarm} describes the other parameters. */
  constructor(now: () => number, fire: () => void, keepsAlive: boolean, longest?: number) {
    this.#now = now;
    this.#alarm = new Alarm(fire, keepsAlive, longest);
    this.#keepsAlive = keepsAlive;
  }

  /** The entry with the earliest deadline. */
  get first(): T | undefined {
    return this.#entries.first;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The entries, in no particular order. */
  toArray(): T[] {
    return this.#entries.toArray();
  }

  /**
   * Adds an entry, unless its deadline is Infinity. After a stack overflow the entry may be added although this threw.
   * The next call that sets the timer then includes it.
   */
  add(entry: T): void {
    this.#entries.add(entry);
    if (entry.deadline < this.#alarm.due) this.#arming.schedule();
  }

  /** Does nothing if the entry was not added. */
  remove(entry: T): void {
    this.#entries.remove(entry);
  }

  /** Makes the timer fire at this time at the latest, even if nothing is due then. */
  fireBy(at: number): void {
    if (at >= this.#alarm.due) return;
    this.#arming.schedule();
    if (at < this.#fireBy) this.#fireBy = at;
  }

  /**
   * Sets the timer for the earliest deadline, unless it fires earlier. Call this with an empty stack, as timers and
   * microtasks have.
   */
  rearm(): void {
    const at = Math.min(this.#fireBy, this.#entries.first?.deadline ?? Infinity);
    this.#alarm.keepAlive(this.#keepsAlive);
    if (at < this.#alarm.due) this.#alarm.setFor(at, at - this.#now());
    this.#fireBy = Infinity;
  }

  /** Whether the timer keeps the event loop alive, from the next microtask on. */
  keepAlive(keeps: boolean): void {
    if (keeps === this.#keepsAlive) return;
    this.#arming.schedule();
    this.#keepsAlive = keeps;
  }
}
