import { DeferredCall } from './deferred-call.js';
import type { LocalQueue } from './local-queue.js';

/**
 * Stripes of one thread that were handed over to a waiter of the same thread, and are yet to be delivered. That happens
 * from the microtask queue: if the code that released then blocks its thread, the waiter cannot run, and what it
 * was given must go to others ({@link takeBack}).
 */
export class HandOvers {
  #first: LocalQueue | undefined = undefined;
  #last: LocalQueue | undefined = undefined;
  readonly #delivery = new DeferredCall(() => this.#deliver());

  /** To be called before {@link add}. If this throws, nothing has changed (keeps T1). */
  schedule(): void {
    this.#delivery.schedule();
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
      if (queue.handing) queue.local.takeBack(queue);
      this.#unlinkFirst(queue);
    }
  }

  #deliver(): void {
    try {
      for (let queue; (queue = this.#first) !== undefined;) {
        this.#unlinkFirst(queue);
        if (!queue.handing) continue;
        queue.handing = false;
        queue.local.deliver(queue);
      }
    } finally {
      if (this.#first !== undefined) this.schedule();
    }
  }

  #unlinkFirst(queue: LocalQueue): void {
    this.#first = queue.nextHanded;
    if (this.#first === undefined) this.#last = undefined;
    queue.nextHanded = undefined;
    queue.isHanded = false;
  }
}
