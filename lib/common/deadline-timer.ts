import { Alarm } from './alarm.js';
import { Deadlines, type Timed } from './deadlines.js';
import { DeferredCall } from './deferred-call.js';

/**
 * Any number of deadlines behind one timer. When it rings, its owner takes out what is due, and calls {@link rearm}.
 *
 * Removing an entry does not change the timer: a needless ring costs less than setting the timer again each time.
 *
 * Callers reach the host's timers from the microtask queue only, where the stack is empty. A stack overflow within
 * `setTimeout` can leave Node with a list of timers that never fires, and later timers of the same delay join that list.
 */
export class DeadlineTimer<T extends Timed> {
  readonly #entries = new Deadlines<T>();
  readonly #now: () => number;
  readonly #alarm: Alarm;
  readonly #arming = new DeferredCall(() => this.rearm());
  /** The earliest time of {@link ringBy} for which the timer is yet to be set. */
  #ringBy = Infinity;
  #keepsAlive: boolean;

  /** `now`: the clock of the deadlines, in milliseconds. For the other parameters see {@link Alarm}. */
  constructor(now: () => number, ring: () => void, keepsAlive: boolean, longest?: number) {
    this.#now = now;
    this.#alarm = new Alarm(ring, keepsAlive, longest);
    this.#keepsAlive = keepsAlive;
  }

  /** The entry that is due first. */
  get first(): T | undefined {
    return this.#entries.first;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** In no order. */
  toArray(): T[] {
    return this.#entries.toArray();
  }

  /**
   * Ignores an entry that is never due. If this throws on a stack overflow, the entry may be added nevertheless; the next
   * call that sets the timer includes it.
   */
  add(entry: T): void {
    this.#entries.add(entry);
    if (entry.deadline < this.#alarm.due) this.#arming.schedule();
  }

  /** Does nothing for an entry that is not here. */
  remove(entry: T): void {
    this.#entries.remove(entry);
  }

  /** Rings at this time at the latest, even if nothing is due then. */
  ringBy(at: number): void {
    if (at >= this.#alarm.due) return;
    this.#arming.schedule();
    if (at < this.#ringBy) this.#ringBy = at;
  }

  /**
   * Sets the timer for the entry that is due first, unless it rings earlier. Call this with an empty stack, as a timer or a
   * microtask does.
   */
  rearm(): void {
    const at = Math.min(this.#ringBy, this.#entries.first?.deadline ?? Infinity);
    this.#alarm.keepAlive(this.#keepsAlive);
    if (at < this.#alarm.due) this.#alarm.setFor(at, at - this.#now());
    this.#ringBy = Infinity;
  }

  /** Whether the timer keeps the event loop alive, from the next microtask on. */
  keepAlive(keeps: boolean): void {
    if (keeps === this.#keepsAlive) return;
    this.#arming.schedule();
    this.#keepsAlive = keeps;
  }
}
