/** An entry of a {@link Queue}. */
export interface Queued<T> {
  /** Increases with each arrival. */
  readonly number: number;
  /** Its neighbours, managed by the queue. */
  previous: T | undefined;
  next: T | undefined;
}

/** A queue in arrival order that any entry can leave. An entry that returns gets its old place. */
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
