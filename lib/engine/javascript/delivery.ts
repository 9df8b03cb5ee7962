import { afterCode, afterTurn, nextTick } from './host.js';

/** So many in a row may come without a turn of the event loop. */
const IN_A_ROW = 64;

/**
 * Hands out what is ready, one at a time, each when no microtask is left to run. So when an acquisition is
 * settled, the code that awaits it is what runs next: nothing else of this thread gets in between, blocks for
 * the same stripe, and finds it held by its own thread. Until then a grant can be taken back.
 *
 * `process.nextTick` called from a microtask does that: node runs such callbacks once the microtasks are done. What is
 * ready waits for as long as microtasks make more of them, as timers do.
 */
export class Delivery<T> {
  /** False: this one no longer counts, on to the next. */
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

  /** What was not handed out yet, and is not going to be. No function is called once it is taken out. */
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

  /** Sees to it that what is ready is handed out. Where it fails, it can be called again. */
  schedule(): void {
    if (this.#scheduled || this.isEmpty) return;
    if (++this.#inARow < IN_A_ROW) {
      afterCode(this.#afterMicrotasks);
    } else {
      this.#inARow = 0;
      afterTurn(this.#deliverOne);
    }
    // Not before: what failed is not scheduled.
    this.#scheduled = true;
  }
}
