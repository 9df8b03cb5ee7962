import { MEASURE, STOP } from '../support/arena.mjs';
import { drawKeys, DRAWS, keyNamed } from '../support/keys.mjs';
import { Waits } from '../support/waits.mjs';

/**
 * What a thread is to do, and with what.
 *
 * @typedef {object} Task
 * @property {import('../workloads/index.mjs').ThreadsWorkload} workload
 * @property {import('../subjects/index.mjs').Lock} lock
 * @property {import('../support/arena.mjs').Arena} arena
 * @property {number} thread
 * @property {number} iterations Of `busy`, under the lock.
 */

/** Every so many requests one is timed, so that reading the clock does not show in the others. */
const TIMED = 16;

/**
 * A thread with many requests under way on its event loop. Each, when it is through, makes the next. What is under the
 * lock mostly awaits once, between reading and writing: work that does not would need no lock in one thread.
 *
 * @param {Omit<Task, 'iterations'>} task
 */
export function asyncRequests({ workload, lock, arena, thread }) {
  const draws = drawKeys(workload, thread + 1);
  const keys = draws.map(([index]) => keyNamed(index));
  const waits = new Waits();
  let next = 0;
  let writes = 0;
  let torn = 0;

  async function requester() {
    let at = 0;
    let asked = NaN;
    const begin = () => {
      if (!Number.isNaN(asked)) waits.record(performance.now() - asked);
      const index = draws[at][0];
      if (!arena.consistent(index)) torn++;
      arena.beginWrite(index);
      return index;
    };
    const end = (/** @type {number} */ index) => {
      arena.endWrite(index);
      writes++;
    };
    const section = workload.awaits
      ? async () => {
          const index = begin();
          await undefined;
          end(index);
        }
      : () => end(begin());
    for (;;) {
      const { phase } = arena;
      if (phase === STOP) return;
      const request = next++;
      at = request & (DRAWS - 1);
      asked = phase === MEASURE && request % TIMED === 0 ? performance.now() : NaN;
      await lock.run(keys[at], section);
      arena.count(thread);
    }
  }

  return async () => {
    await Promise.all(Array.from({ length: workload.inFlight ?? 1 }, requester));
    return { writes, torn, histogram: waits.histogram };
  };
}
