import type { Mode } from '../contract/mode.js';
import type { NamedRequester } from '../contract/named-locks.js';

/** A request for a name. */
export class NamedEntry {
  readonly queue: NamedQueue;
  readonly mode: Mode;
  readonly requester: NamedRequester;
  readonly ticket: number;
  state: 'pending' | 'held' | 'stolen' = 'pending';
  /** It waited and was granted, and its requester is yet to be told. */
  untold = false;
  previous: NamedEntry | undefined = undefined;
  next: NamedEntry | undefined = undefined;

  constructor(queue: NamedQueue, mode: Mode, requester: NamedRequester, ticket: number) {
    this.queue = queue;
    this.mode = mode;
    this.requester = requester;
    this.ticket = ticket;
  }
}

/** The requests for one name. Those that wait are a list of their own making: a Set that loses its first is slow. */
export class NamedQueue {
  readonly name: string;
  readonly held = new Set<NamedEntry>();
  first: NamedEntry | undefined = undefined;
  #last: NamedEntry | undefined = undefined;
  /** The mode of all that is held. */
  #mode: Mode | undefined = undefined;

  constructor(name: string) {
    this.name = name;
  }

  get isEmpty(): boolean {
    return this.first === undefined && this.held.size === 0;
  }

  /** Whether what is held admits one more. Of all modes those admit each other whose holders are counted. */
  admits(mode: Mode): boolean {
    return this.held.size === 0 || (mode.counted && this.#mode!.counted);
  }

  hold(entry: NamedEntry): void {
    entry.state = 'held';
    this.#mode = entry.mode;
    this.held.add(entry);
  }

  push(entry: NamedEntry): void {
    entry.previous = this.#last;
    if (this.#last === undefined) this.first = entry;
    else this.#last.next = entry;
    this.#last = entry;
  }

  remove(entry: NamedEntry): void {
    if (entry.previous === undefined) this.first = entry.next;
    else entry.previous.next = entry.next;
    if (entry.next === undefined) this.#last = entry.previous;
    else entry.next.previous = entry.previous;
    entry.previous = entry.next = undefined;
  }
}
