import { afterTurn, defer } from '../../common/host.js';
import type { LocalQueue } from './local-queue.js';

/**
 * After so many in a row a hand-over waits for a turn of the event loop. Otherwise tasks that pass a stripe on to each
 * other in microtasks would keep the thread from its timers, and from what other threads send it.
 */
const IN_A_ROW = 1024;

/**
 * Stripes of one thread that were handed over to a waiter of the same thread, and are yet to be delivered. That happens
 * from the microtask queue: if the code that released goes on to block its thread, the waiter cannot run, and what it
 * was given must go to others ({@link takeBack}).
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

  /** To be called before {@link add}. If this throws, nothing has changed (keeps T1). */
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
