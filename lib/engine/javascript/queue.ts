/** An entry of a {@link Queue}. */
export interface Queued<T> {
  /** The arrival number. Each new entry has a higher number than all entries before it. */
  readonly number: number;
  /** The neighbours of the entry. Only the queue sets these fields. */
  previous: T | undefined;
  next: T | undefined;
}

/**
 * A queue in order of arrival. Any entry can be removed, not only the first. If a removed entry is added
 * again, it gets its old place.
 */
export class Queue<T extends Queued<T>> implements Iterable<T> {
  first: T | undefined = undefined;
  size = 0;
  #last: T | undefined = undefined;

  add(entry: T): void {
    let before = this.#last;
    while (before !== undefined && before.number > entry.number) before = before.previous;
    const after = before === undefined ? this.first : before.next;
    entry.previous = before;
    entry.next = after;
    if (before === undefined) this.first = entry;
    else before.next = entry;
    if (after === undefined) this.#last = entry;
    else after.previous = entry;
    this.size++;
  }

  remove(entry: T): void {
    if (entry.previous === undefined) this.first = entry.next;
    else entry.previous.next = entry.next;
    if (entry.next === undefined) this.#last = entry.previous;
    else entry.next.previous = entry.previous;
    entry.previous = entry.next = undefined;
    this.size--;
  }

  *[Symbol.iterator](): Generator<T> {
    for (let entry = this.first; entry !== undefined; entry = entry.next) yield entry;
  }
}
