import { defer } from '../../common/host.js';
import { afterTurn, nextTick } from './host.js';

/** How many may be handed out in a row without a turn of the event loop. */
const IN_A_ROW = 64;

/**
 * Hands out what is ready, one at a time, each when no microtask is left to run. So when an acquisition is
 * settled, the code that awaits it runs next: no other code of this thread gets in between, blocks for
 * the same stripe, and finds it held by its own thread. Until then a grant can be taken back.
 *
 * `process.nextTick` called from a microtask does that: Node runs such callbacks once the microtasks are done. While
 * microtasks make more microtasks, what is ready waits, as timers do.
 */
export class Delivery<T> {
  /** False: this one no longer counts, and the next follows. */
  readonly #deliver: (item: T) => boolean;
  #ready: T[] = [];
  #next = 0;
  #scheduled = false;
  #inARow = 0;
  readonly #afterMicrotasks = (): void => nextTick(this.#deliverOne);
  readonly #deliverOne = (): void => {
    this.#scheduled = false;
    try {
      for (;;) {
        const item = this.#ready[this.#next];
        if (item === undefined) break;
        this.#next++;
        if (this.#deliver(item)) break;
      }
    } finally {
      if (this.#next === this.#ready.length) this.#clear();
      else this.schedule();
    }
  };

  constructor(deliver: (item: T) => boolean) {
    this.#deliver = deliver;
  }

  /** To be followed by {@link schedule}. */
  add(item: T): void {
    this.#ready.push(item);
  }

  /** Takes out what was not handed out yet. No function is called after that. */
  takeBack(): T[] {
    const items = this.#ready;
    const next = this.#next;
    this.#ready = [];
    this.#next = 0;
    return items.slice(next);
  }

  get isEmpty(): boolean {
    return this.#ready.length === 0;
  }

  #clear(): void {
    this.#ready = [];
    this.#next = 0;
  }

  /** Has what is ready handed out. Where this fails, it can be called again. */
  schedule(): void {
    if (this.#scheduled || this.isEmpty) return;
    if (++this.#inARow < IN_A_ROW) {
      defer(this.#afterMicrotasks, undefined);
    } else {
      this.#inARow = 0;
      afterTurn(this.#deliverOne);
    }
    // Noted last: where the call fails, nothing is scheduled.
    this.#scheduled = true;
  }
}
