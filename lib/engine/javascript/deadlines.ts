/** Something that can run out of time. */
export interface Timed {
  /** On the clock of `performance.now()`; Infinity never passes. */
  readonly deadline: number;
  /** Its place in {@link Deadlines}, or -1. */
  place: number;
}

/** A binary heap, the earliest deadline on top. Each entry knows its place, so that any can be taken out. */
export class Deadlines<T extends Timed> {
  readonly #heap: T[] = [];

  get first(): T | undefined {
    return this.#heap[0];
  }

  /** In no order. */
  toArray(): T[] {
    return [...this.#heap];
  }

  add(entry: T): void {
    if (entry.deadline === Infinity) return;
    const place = this.#heap.push(entry) - 1;
    entry.place = place;
    // (No look at index -1, a name to V8, which it would search for.)
    if (place > 0) this.#riseIfBefore(entry, place);
  }

  remove(entry: T): void {
    const { place } = entry;
    if (place < 0) return;
    entry.place = -1;
    const last = this.#heap.pop();
    if (last !== entry) this.#fill(place, last!);
  }

  /** Most that are added are last: that spares storing them twice. */
  #riseIfBefore(entry: T, place: number): void {
    if (this.#heap[(place - 1) >> 1]!.deadline > entry.deadline) this.#rise(entry, place);
  }

  #fill(place: number, last: T): void {
    if (place > 0 && this.#heap[(place - 1) >> 1]!.deadline > last.deadline) this.#rise(last, place);
    else this.#sink(last, place);
  }

  #put(entry: T, place: number): void {
    this.#heap[place] = entry;
    entry.place = place;
  }

  #rise(entry: T, from: number): void {
    let place = from;
    while (place > 0) {
      const above = (place - 1) >> 1;
      const parent = this.#heap[above];
      if (parent === undefined || parent.deadline <= entry.deadline) break;
      this.#put(parent, place);
      place = above;
    }
    this.#put(entry, place);
  }

  #sink(entry: T, from: number): void {
    let place = from;
    for (;;) {
      let below = 2 * place + 1;
      let child = this.#heap[below];
      if (child === undefined) break;
      const right = this.#heap[below + 1];
      if (right !== undefined && right.deadline < child.deadline) {
        child = right;
        below++;
      }
      if (child.deadline >= entry.deadline) break;
      this.#put(child, place);
      place = below;
    }
    this.#put(entry, place);
  }
}
