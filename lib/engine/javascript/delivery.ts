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
  readonly #afterMicrotasks = (): void => process.nextTick(this.#deliverOne);
  readonly #deliverOne = (): void => {
    this.#scheduled = false;
    for (;;) {
      const item = this.#ready[this.#next];
      if (item === undefined) break;
      this.#next++;
      if (this.#deliver(item)) break;
    }
    if (this.#next === this.#ready.length) this.#clear();
    else this.#schedule();
  };

  constructor(deliver: (item: T) => boolean) {
    this.#deliver = deliver;
  }

  add(item: T): void {
    this.#ready.push(item);
    this.#schedule();
  }

  /** What was not handed out yet, and is not going to be. */
  takeBack(): T[] {
    const items = this.#ready.slice(this.#next);
    this.#clear();
    return items;
  }

  get isEmpty(): boolean {
    return this.#ready.length === 0;
  }

  #clear(): void {
    this.#ready = [];
    this.#next = 0;
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    if (++this.#inARow < IN_A_ROW) {
      queueMicrotask(this.#afterMicrotasks);
    } else {
      this.#inARow = 0;
      setImmediate(this.#deliverOne);
    }
  }
}
