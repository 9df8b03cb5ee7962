import { MEASURE, STOP } from '../support/arena.mjs';
import { drawKeys, DRAWS, keyNamed } from '../support/keys.mjs';
import { Waits } from '../support/waits.mjs';

/**
 * What a thread does, and with what.
 *
 * @typedef {object} Task
 * @property {import('../workloads/index.mjs').ThreadsWorkload} workload
 * @property {import('../subjects/index.mjs').Lock} lock
 * @property {import('../support/arena.mjs').Arena} arena
 * @property {number} thread
 * @property {number} iterations Of `busy`, under the lock.
 */

/** Only one in this many requests is timed, so that reading the clock does not slow the others. */
const TIMED = 16;

/**
 * A thread with many pending requests on its event loop. Each starts the next when it is done. The work under the lock
 * usually awaits once, between reading and writing: in one thread, work that never awaits needs no lock.
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
