/** An entry of {@link Deadlines}. The deadline may also be another number by which entries are ordered. */
export interface Timed<Deadline = number> {
  /** By the clock of `performance.now()`; Infinity never passes. */
  readonly deadline: Deadline;
  /** The index in {@link Deadlines}, or -1. */
  place: number;
}

/**
 * A binary heap with the earliest deadline on top. Each entry knows its index, so that any entry can be removed.
 *
 * After its first change a method calls nothing that could overflow the stack, because that would corrupt the heap.
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
    // Never reads index -1, which V8 would look up as a property name.
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
