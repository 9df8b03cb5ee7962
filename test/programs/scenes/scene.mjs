// One scene of `test/programs/stack-limit.mjs`, see contended.mjs.

import { setImmediate as turn } from 'node:timers/promises';

/** How long what must happen may take, in milliseconds: far longer than it does, as the machine may be busy. */
const PATIENCE = 10_000;
/** For waiters that are served: never reached. */
export const LONG = { timeout: 600_000 };

export const isOverflow = (error) => error instanceof RangeError && /call stack/.test(error.message);

/** Late, or how a promise was settled. */
export async function outcomeOf(promise) {
  let timer;
  const late = new Promise((resolve) => (timer = setTimeout(resolve, PATIENCE, 'late')));
  const outcome = await Promise.race([promise.catch((error) => error), late]);
  clearTimeout(timer);
  return outcome;
}

/** What happens in one scene: the guards that somebody has, and the acquisitions that wait. */
export class Scene {
  #lock;
  #guards = [];
  #waiting = [];
  #problems;

  constructor(lock, problems) {
    this.#lock = lock;
    this.#problems = problems;
  }

  problem(text) {
    this.#problems.push(text);
  }

  /** Somebody has this guard, with room on the stack. */
  has(guard) {
    this.#guards.push(guard);
    this.#look();
    return guard;
  }

  holds(keys, mode = 'exclusive') {
    return this.has(this.#lock.tryAcquire(keys, { mode }));
  }

  /** An acquisition that was made with room on the stack: it must be served, exactly once. */
  waits(keys, mode = 'exclusive') {
    this.#follow(this.#lock.acquire(keys, { ...LONG, mode }), (error) => `a waiter was not served: ${error}`);
  }

  /** One that was made near a stack overflow: it may have failed. */
  mayWait(promise, mayFail = () => false) {
    if (!promise) return;
    this.#follow(promise, (error) => (isOverflow(error) || mayFail(error) ? undefined : String(error)));
  }

  #follow(promise, problemOf) {
    const kept = promise.then(
      async (guard) => {
        if (!guard) return;
        this.has(guard);
        await turn();
        this.#look();
        guard.release();
        this.#look();
      },
      (error) => {
        const problem = problemOf(error);
        if (problem) this.problem(problem);
      },
    );
    this.#waiting.push(kept);
  }

  /** Two guards exclude each other, and the lock knows what they hold. */
  #look() {
    const held = this.#guards.filter((guard) => guard.held);
    for (const [i, guard] of held.entries()) {
      for (const other of held.slice(i + 1)) {
        const exclusive = guard.mode === 'exclusive' || other.mode === 'exclusive';
        if (exclusive && other.stripes.some((stripe) => guard.stripes.includes(stripe)))
          this.problem('two holders of one stripe');
      }
      const stolen = this.#lock.tryAcquire(guard.keys);
      if (stolen) this.problem('a stripe was free while a guard held it');
      stolen?.release();
    }
  }

  /** Ends with nothing held and nobody waiting. False: it does not, and the lock is of no more use. */
  async end(atEnd, heldByOthers) {
    await turn();
    this.#look();
    // Of some it is the second release. Those that come later release themselves.
    for (const guard of [...this.#guards]) guard.release();
    if ((await outcomeOf(this.#settled())) === 'late') {
      this.problem(`waiters are not served within ${PATIENCE} ms`);
      return false;
    }
    await atEnd();
    // What could not be given back where it was had is given back from the microtask queue.
    await turn();
    const { held, waiting } = this.#lock.stats();
    if (held !== heldByOthers) this.problem(`${held} held`);
    if (waiting !== 0) this.problem(`${waiting} waiting`);
    return held === heldByOthers && waiting === 0;
  }

  async #settled() {
    // One that was not known before may be added meanwhile.
    for (let i = 0; i < this.#waiting.length; i++) await this.#waiting[i];
  }

  get lock() {
    return this.#lock;
  }
}
