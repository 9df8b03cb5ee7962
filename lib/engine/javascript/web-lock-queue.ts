import type { Mode } from '../contract/mode.js';
import type { WebLockRequester } from '../contract/web-locks.js';

/** A request for a name. */
export class WebLockEntry {
  readonly queue: WebLockQueue;
  readonly mode: Mode;
  readonly requester: WebLockRequester;
  state: 'pending' | 'held' | 'stolen' | 'ended' = 'pending';
  /** It waited and was granted, and its requester is yet to be told. */
  untold = false;
  previous: WebLockEntry | undefined = undefined;
  next: WebLockEntry | undefined = undefined;

  constructor(queue: WebLockQueue, mode: Mode, requester: WebLockRequester) {
    this.queue = queue;
    this.mode = mode;
    this.requester = requester;
  }
}

/** Entries in the order in which they were added. An entry is in one list at most. */
class WebLockList {
  first: WebLockEntry | undefined = undefined;
  #last: WebLockEntry | undefined = undefined;

  push(entry: WebLockEntry): void {
    entry.previous = this.#last;
    if (this.#last === undefined) this.first = entry;
    else this.#last.next = entry;
    this.#last = entry;
  }

  remove(entry: WebLockEntry): void {
    if (entry.previous === undefined) this.first = entry.next;
    else entry.previous.next = entry.next;
    if (entry.next === undefined) this.#last = entry.previous;
    else entry.next.previous = entry.previous;
    entry.previous = entry.next = undefined;
  }
}

/** The requests for one name. */
export class WebLockQueue {
  readonly name: string;
  readonly held = new WebLockList();
  readonly pending = new WebLockList();

  constructor(name: string) {
    this.name = name;
  }

  get isEmpty(): boolean {
    return this.held.first === undefined && this.pending.first === undefined;
  }

  /** Whether what is held admits one more. Of all modes those admit each other whose holders are counted. */
  admits(mode: Mode): boolean {
    const { first } = this.held;
    return first === undefined || (mode.counted && first.mode.counted);
  }

  hold(entry: WebLockEntry): void {
    entry.state = 'held';
    this.held.push(entry);
  }
}
