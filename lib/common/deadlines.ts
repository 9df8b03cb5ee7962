import { DeferredCall } from './deferred-call.js';
import { Alarm } from './timers.js';

/**
 * An entry of {@link Deadlines}. Instead of a time, the deadline may be another number that orders the
 * entries.
 */
export interface Timed<Deadline = number> {
  /** A time on the clock of `performance.now()`. Infinity never passes. */
  readonly deadline: Deadline;
  /** The entry's index in {@link Deadlines}; -1 if the entry is not in it. */
  place: number;
}

/**
 * A binary heap with the earliest deadline on top. Each entry stores its index, so any entry can be removed.
 *
 * After the first change to the heap, a method calls nothing that can throw, because an exception between two
 * changes would corrupt the heap.
 */
export class Deadlines<T extends Timed<number | bigint>> {
  readonly #heap: T[] = [];

  get first(): T | undefined {
    return this.#heap[0];
  }

  get size(): number {
    return this.#heap.length;
  }

  /** All entries, in no particular order. */
  toArray(): T[] {
    return [...this.#heap];
  }

  add(entry: T): void {
    if (entry.deadline === Infinity) return;
    const heap = this.#heap;
    let place = heap.push(entry) - 1;
    entry.place = place;
    // This loop never reads index -1, which V8 would look up as a property name.
    while (place > 0) {
      const above = (place - 1) >> 1;
      const parent = heap[above]!;
      if (parent.deadline <= entry.deadline) return;
      heap[place] = parent;
      parent.place = place;
      heap[above] = entry;
      entry.place = place = above;
    }
  }

  remove(entry: T): void {
    let { place } = entry;
    if (place < 0) return;
    const heap = this.#heap;
    entry.place = -1;
    const last = heap.pop()!;
    if (last === entry) return;
    // The last entry fills the gap, then moves up or down to its place.
    while (place > 0) {
      const above = (place - 1) >> 1;
      const parent = heap[above]!;
      if (parent.deadline <= last.deadline) break;
      heap[place] = parent;
      parent.place = place;
      place = above;
    }
    for (let below = 2 * place + 1; below < heap.length; below = 2 * place + 1) {
      if (below + 1 < heap.length && heap[below + 1]!.deadline < heap[below]!.deadline) below++;
      const child = heap[below]!;
      if (child.deadline >= last.deadline) break;
      heap[place] = child;
      child.place = place;
      place = below;
    }
    heap[place] = last;
    last.place = place;
  }
}

/**
 * One timer for many deadlines. When the timer fires, its owner removes the entries that are due, and calls
 * {@link rearm}.
 *
 * The removal of an entry does not reset the timer. Firing needlessly costs less than a reset at each
 * removal.
 *
 * The host's timers are called only from the microtask queue, where the stack is empty. A stack overflow
 * within `setTimeout` can leave Node with a list of timers that never fires. Later timers with the same delay
 * would join that list.
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
   * Adds an entry, unless its deadline is Infinity. If this throws, the entry may have been added
   * nevertheless. The next call that sets the timer then includes the entry.
   */
  add(entry: T): void {
    this.#entries.add(entry);
    if (entry.deadline < this.#alarm.due) this.#arming.schedule();
  }

  /** Removes an entry. Does nothing if the entry was not added. */
  remove(entry: T): void {
    this.#entries.remove(entry);
  }

  /** Makes the timer fire at this time or earlier, even if nothing is due then. */
  fireBy(at: number): void {
    if (at >= this.#alarm.due) return;
    this.#arming.schedule();
    if (at < this.#fireBy) this.#fireBy = at;
  }

  /**
   * Sets the timer for the earliest deadline, unless the timer is already set for an earlier time. Call this
   * with an empty stack, as in a callback of a timer or a microtask.
   */
  rearm(): void {
    const at = Math.min(this.#fireBy, this.#entries.first?.deadline ?? Infinity);
    this.#alarm.keepAlive(this.#keepsAlive);
    if (at < this.#alarm.due) this.#alarm.setFor(at, at - this.#now());
    this.#fireBy = Infinity;
  }

  /** Sets whether the timer keeps the event loop alive. Takes effect in the next microtask. */
  keepAlive(keeps: boolean): void {
    if (keeps === this.#keepsAlive) return;
    this.#arming.schedule();
    this.#keepsAlive = keeps;
  }
}
