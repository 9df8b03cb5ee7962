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

  add(entry: T): void {
    if (entry.deadline === Infinity) return;
    this.#heap.push(entry);
    this.#rise(entry, this.#heap.length - 1);
  }

  remove(entry: T): void {
    const { place } = entry;
    if (place < 0) return;
    entry.place = -1;
    const last = this.#heap.pop();
    if (last === undefined || last === entry) return;
    const parent = this.#heap[(place - 1) >> 1];
    if (place > 0 && parent !== undefined && parent.deadline > last.deadline) this.#rise(last, place);
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
