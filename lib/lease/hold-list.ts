import type { Hold } from './hold.js';

/** What a {@link HoldList} keeps in its members. */
export interface Linked {
  previous: Hold | undefined;
  next: Hold | undefined;
}

/** The holds of a manager: a list through its members, cheaper to enter and leave than a set. */
export class HoldList {
  #first: Hold | undefined;

  add(hold: Hold): void {
    hold.next = this.#first;
    if (this.#first) this.#first.previous = hold;
    this.#first = hold;
  }

  /** Of a member. */
  remove(hold: Hold): void {
    const { previous, next } = hold;
    if (previous) previous.next = next;
    else this.#first = next;
    if (next) next.previous = previous;
    hold.previous = hold.next = undefined;
  }

  toArray(): Hold[] {
    const holds: Hold[] = [];
    for (let hold = this.#first; hold; hold = hold.next) holds.push(hold);
    return holds;
  }
}
