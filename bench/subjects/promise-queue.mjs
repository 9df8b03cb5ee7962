// What programs write by hand for one thread: a flag, and a queue of promises to resolve. No key, no timeout, no
// cancellation, no other thread. It is the least that an asynchronous lock of one thread can cost.

const settled = Promise.resolve();
/** So many are removed at once. */
const BLOCK = 1024;

class PromiseQueue {
  #held = false;
  /** @type {(() => void)[]} */
  #waiting = [];
  /** The index of the next in line. Each removal from the front of a long array would move the rest. */
  #next = 0;

  acquire() {
    if (this.#held)
      return new Promise((/** @type {(value?: undefined) => void} */ resolve) => this.#waiting.push(resolve));
    this.#held = true;
    return settled;
  }

  release() {
    if (this.#next < this.#waiting.length) {
      this.#waiting[this.#next++]();
      if (this.#next === BLOCK) this.#next -= this.#waiting.splice(0, BLOCK).length;
      return;
    }
    this.#held = false;
    this.#waiting = [];
    this.#next = 0;
  }

  /** @param {() => unknown} section */
  async run(section) {
    await this.acquire();
    try {
      return await section();
    } finally {
      this.release();
    }
  }
}

/** @type {import('./index.mjs').Subject} */
export const promiseQueue = {
  name: 'queue of promises',
  packages: [],
  can: ['acquire', 'run'],
  limit: ({ keys }) => (keys > 1 ? 'is not keyed' : undefined),
  create: () => undefined,
  open: () => {
    const queue = new PromiseQueue();
    return {
      acquire: () => queue.acquire(),
      release: () => queue.release(),
      run: (_key, section) => queue.run(section),
    };
  },
};
