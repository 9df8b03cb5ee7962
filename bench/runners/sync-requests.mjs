import { MEASURE, STOP } from '../support/arena.mjs';
import { busy } from '../support/busy.mjs';
import { drawKeys, drawModes, DRAWS, keyNamed } from '../support/keys.mjs';
import { Waits } from '../support/waits.mjs';

/**
 * Only one in this many requests is timed. Reading the clock twice takes as long as a short section, so it would be
 * most of what the threads do. Every 16th is still some ten thousand a second.
 */
const SHORT_SECTION = 1000;
const TIMED_WHEN_SHORT = 16;

/**
 * A thread that acquires, works and releases until it is told to stop, with nothing in between.
 *
 * @param {import('./async-requests.mjs').Task} task
 */
export function syncRequests({ workload, lock, arena, thread, iterations }) {
  const { section = 0, keysAtOnce, sharedPart = 0 } = workload;
  const draws = drawKeys(workload, thread + 1);
  const take = taking(
    lock,
    draws,
    keysAtOnce,
    sharedPart > 0 ? drawModes(sharedPart, thread + 101) : undefined,
  );
  const every = section < SHORT_SECTION ? TIMED_WHEN_SHORT : 1;
  const waits = new Waits();
  let writes = 0;
  let torn = 0;
  let seed = thread;

  const protectedWork = (/** @type {readonly number[]} */ indexes, /** @type {boolean} */ shared) => {
    for (const index of indexes) {
      if (!arena.consistent(index)) torn++;
      if (!shared) arena.beginWrite(index);
    }
    if (iterations > 0) seed = busy(iterations, seed);
    for (const index of indexes) {
      if (!shared) arena.endWrite(index);
      if (!arena.consistent(index)) torn++;
    }
    if (!shared) writes += indexes.length;
  };

  return () => {
    for (let request = 0; ; request++) {
      const { phase } = arena;
      if (phase === STOP) break;
      const at = request & (DRAWS - 1);
      if (phase === MEASURE && request % every === 0) {
        const asked = performance.now();
        const held = take(at);
        waits.record(performance.now() - asked);
        protectedWork(draws[at], take.shared(at));
        lock.release(held);
      } else {
        const held = take(at);
        protectedWork(draws[at], take.shared(at));
        lock.release(held);
      }
      arena.count(thread);
    }
    return { writes, torn, histogram: waits.histogram, seed };
  };
}

/**
 * How the request at a place in the draws is made.
 *
 * @param {import('../subjects/index.mjs').Lock} lock
 * @param {readonly number[][]} draws
 * @param {number} keysAtOnce
 * @param {readonly boolean[] | undefined} modes
 */
function taking(lock, draws, keysAtOnce, modes) {
  /** @type {any[]} */
  const keys = draws.map((indexes) => (keysAtOnce === 1 ? keyNamed(indexes[0]) : indexes.map(keyNamed)));
  if (modes !== undefined) {
    const take = (/** @type {number} */ at) =>
      modes[at] ? lock.acquireSharedSync(keys[at]) : lock.acquireSync(keys[at]);
    return Object.assign(take, { shared: (/** @type {number} */ at) => modes[at] });
  }
  const take =
    keysAtOnce === 1
      ? (/** @type {number} */ at) => lock.acquireSync(keys[at])
      : (/** @type {number} */ at) => lock.acquireManySync(keys[at]);
  return Object.assign(take, { shared: () => false });
}
