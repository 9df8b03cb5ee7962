// A scene for `test/programs/stack-limit.mjs`: it is set up with room on the stack, makes one call near a stack overflow,
// and is then checked: who holds what, who waits, and who was served.

import { setImmediate as turn } from 'node:timers/promises';

/** Milliseconds for what must happen: far more than it takes, as the machine may be busy. */
const PATIENCE = 10_000;
/** Options of waiters that are served: a timeout that is never reached. */
export const LONG = { timeout: 600_000 };

export const isOverflow = (error) => error instanceof RangeError && /call stack/.test(error.message);

/** One scene: the guards that somebody has, and the acquisitions that wait. */
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

  /** Adds a guard that somebody has, with room on the stack. */
  has(guard) {
    this.#guards.push(guard);
    this.#look();
    return guard;
  }

  holds(keys, mode = 'exclusive') {
    return this.has(this.#lock.tryAcquire(keys, { mode }));
  }

  /** Starts an acquisition with room on the stack. It must be served exactly once. */
  waits(keys, mode = 'exclusive') {
    this.#follow(this.#lock.acquire(keys, { ...LONG, mode }), (error) => `a waiter was not served: ${error}`);
  }

  /** The same for a function of `withLock`, which is passed the key in a separate code path. */
  runs(key) {
    const run = async (guard) => {
      this.has(guard);
      await turn();
      this.#look();
    };
    const problem = (error) => this.problem(`a function did not run: ${error}`);
    this.#waiting.push(this.#lock.withLock(key, run).then(() => this.#look(), problem));
  }

  /** Adds an acquisition made near a stack overflow: it may have failed. */
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

  /** Checks that guards exclude each other, and that the lock knows what they hold. */
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

  /** Ends the scene. False: something is still held or waited for, and the lock cannot be used again. */
  async end(atEnd, heldByOthers) {
    await turn();
    this.#look();
    // For some this is the second release. Later guards are released by their own acquisition.
    for (const guard of [...this.#guards]) guard.release();
    if ((await outcomeOf(this.#settled())) === 'late') {
      this.problem(`waiters are not served within ${PATIENCE} ms`);
      return false;
    }
    await atEnd();
    // Guards that could not be released near the overflow are released from the microtask queue.
    await turn();
    const { held, waiting } = this.#lock.stats();
    if (held !== heldByOthers) this.problem(`${held} held`);
    if (waiting !== 0) this.problem(`${waiting} waiting`);
    return held === heldByOthers && waiting === 0;
  }

  async #settled() {
    // Others may be added meanwhile.
    for (let i = 0; i < this.#waiting.length; i++) await this.#waiting[i];
  }

  get lock() {
    return this.#lock;
  }
}

/** The result of a promise; 'late' if it was not settled. */
export async function outcomeOf(promise) {
  let timer;
  const late = new Promise((resolve) => (timer = setTimeout(resolve, PATIENCE, 'late')));
  const outcome = await Promise.race([promise.catch((error) => error), late]);
  clearTimeout(timer);
  return outcome;
}

/**
 * Plays a scene. `setUp` returns the `call` to make near the overflow, what it `mayThrow` besides an overflow, what
 * happens `after` it with its result, what happens `atEnd`, and how many stripes are `heldByOthers` then. False: the lock
 * cannot be used again.
 */
export async function playScene(scene, setUp, descend) {
  const { call, mayThrow = () => false, after, atEnd, heldByOthers = 0 } = await setUp(scene);
  const { error, result } = descend(call);
  if (error && !isOverflow(error) && !mayThrow(error)) scene.problem(String(error));
  await after?.(result);
  if (!(await scene.end(() => atEnd?.(result), heldByOthers))) return false;
  return true;
}
