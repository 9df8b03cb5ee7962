import { afterTurn, defer } from '../../common/host.js';
import type { AsyncWaiter } from '../contract/engine.js';
import type { LocalQueue } from './local-queue.js';

/**
 * After so many in a row a hand-over waits for a turn of the event loop. Otherwise tasks that pass a stripe on to each
 * other in microtasks would keep the thread from its timers, and from what other threads send it.
 */
const IN_A_ROW = 1024;

/**
 * Stripes of one thread that were handed over to a waiter of the same thread, and are yet to be delivered. That happens
 * from the microtask queue: if the code that released goes on to block its thread, the waiter cannot run, and what it
 * was given must go to others ({@link takeBack}). A waiter that can be woken comes for the stripe in the microtask in which
 * it goes on; the others are settled in one of this class, which takes one microtask more for each.
 */
export class HandOvers {
  #first: LocalQueue | undefined = undefined;
  #last: LocalQueue | undefined = undefined;
  #scheduled = false;
  #inARow = 0;
  readonly #deliver = (): void => {
    this.#scheduled = false;
    try {
      for (let queue; (queue = this.#first) !== undefined;) {
        this.#unlinkFirst(queue);
        if (!queue.handing) continue;
        queue.handing = false;
        queue.owner.deliver(queue);
      }
    } finally {
      if (this.#first !== undefined) this.schedule();
    }
  };

  /**
   * Whether the waiter comes for what {@link add} gives it next; otherwise {@link schedule} is to be called. If `add` then
   * overflows the stack, the waiter finds nothing, and waits on. Waking takes more of the stack than scheduling: where it
   * overflows, the release of several stripes must not be cut off for that.
   */
  wakes(waiter: AsyncWaiter): boolean {
    // What is scheduled may be for the next turn of the event loop, which must not be put off.
    if (this.#scheduled || this.#inARow >= IN_A_ROW) return false;
    try {
      if (!waiter.wake()) return false;
    } catch {
      return false;
    }
    this.#inARow++;
    return true;
  }

  /** The first waiter of a queue gets what was handed to it. */
  end(queue: LocalQueue): void {
    queue.handing = false;
    for (let first; (first = this.#first) !== undefined && !first.handing;) this.#unlinkFirst(first);
  }

  /** To be called before {@link add}, unless {@link wakes}. If this throws, nothing has changed (keeps T1). */
  schedule(): void {
    if (this.#scheduled) return;
    if (this.#inARow < IN_A_ROW) {
      defer(this.#deliver, undefined);
      this.#inARow++;
    } else {
      afterTurn(this.#deliver);
      this.#inARow = 0;
    }
    this.#scheduled = true;
  }

  /** Calls nothing. It is not delivered if `handing` is false by then. */
  add(queue: LocalQueue): void {
    queue.handing = true;
    if (queue.isHanded) return;
    queue.isHanded = true;
    const last = this.#last;
    if (last === undefined) this.#first = queue;
    else last.nextHanded = queue;
    this.#last = queue;
  }

  /** The thread is about to block. If this throws, it can be called again. */
  takeBack(): void {
    for (let queue; (queue = this.#first) !== undefined;) {
      if (queue.handing) queue.owner.takeBack(queue);
      this.#unlinkFirst(queue);
    }
  }

  #unlinkFirst(queue: LocalQueue): void {
    this.#first = queue.nextHanded;
    if (this.#first === undefined) this.#last = undefined;
    queue.nextHanded = undefined;
    queue.isHanded = false;
  }
}
