// The cost of a crowd of waiters: memory, cancelling them, and using another key meanwhile. One thread. Here also the
// memory of locks and of held keys.

import { randomFrom } from '../../test/workers/random.mjs';
import { collectGarbage } from '../support/garbage.mjs';
import { CANCELLED, crowdOf, turn } from './crowd.mjs';
import { heldMemory, lockMemory, memory } from './memory.mjs';

/** @typedef {import('../subjects/index.mjs').Lock} Lock */

/**
 * @callback Measure
 * @param {import('../subjects/index.mjs').Subject} subject
 * @param {import('../effort.mjs').Effort} effort
 * @param {{ stripes: number }} workload
 * @returns {Promise<import('./index.mjs').Figures>}
 */

const FREE = 'account:7654321';

/** The cost with all waiters is compared with that of a crowd this many times smaller. */
const FEWER = 100;
/** How many such small crowds, one after the other. */
const CROWDS = 20;

/**
 * Nanoseconds for each waiter, aborted in random order: in order of arrival, a search would find each at once.
 *
 * @type {Measure}
 */
async function cancel(subject, { waiters }, { stripes }) {
  // Runs twice, so that everything has been compiled the second time.
  await cancelCrowd(subject, stripes, waiters / FEWER, CROWDS);
  const few = await cancelCrowd(subject, stripes, waiters / FEWER, CROWDS);
  const many = await cancelCrowd(subject, stripes, waiters, 1);
  return { cancelNs: many, cancelFewNs: few, growth: many / few };
}

/**
 * @param {import('../subjects/index.mjs').Subject} subject
 * @param {number} stripes
 * @param {number} waiters
 * @param {number} times
 */
async function cancelCrowd(subject, stripes, waiters, times) {
  let milliseconds = 0;
  for (let time = 0; time < times; time++) {
    const { crowd } = await crowdOf(subject, stripes);
    const controllers = Array.from({ length: waiters }, () => new AbortController());
    crowd.join(waiters, (i) => controllers[i].signal);
    await turn();
    const order = shuffled(controllers);
    const started = performance.now();
    for (const controller of order) controller.abort(CANCELLED);
    await crowd.settled();
    milliseconds += performance.now() - started;
    await crowd.leave();
    if (crowd.aborted !== waiters || crowd.granted !== 0) {
      throw new Error(`${crowd.aborted} of ${waiters} were aborted, ${crowd.granted} granted`);
    }
  }
  return (milliseconds * 1e6) / (waiters * times);
}

/**
 * @template T
 * @param {readonly T[]} list
 */
function shuffled(list) {
  const random = randomFrom(list.length);
  const result = [...list];
  for (let i = result.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [result[i], result[j]] = [result[j], result[i]];
  }
  return result;
}

/** This many operations are timed together; the best time counts, see `bench/runners/single.mjs`. */
const BATCH = 50;

/**
 * Nanoseconds to acquire and release another key: without waiters, and with all of them.
 *
 * @param {import('../subjects/index.mjs').Subject} subject
 * @param {import('../effort.mjs').Effort} effort
 * @param {{ stripes: number }} workload
 * @param {(lock: Lock) => () => unknown} batchOf
 */
async function unrelated(subject, { waiters, warmup, window }, { stripes }, batchOf) {
  const { lock, crowd } = await crowdOf(subject, stripes);
  const batch = batchOf(lock);
  await bestOf(batch, warmup);
  const alone = await bestOf(batch, window / 2);
  crowd.join(waiters);
  await collectGarbage();
  const crowded = await bestOf(batch, window / 2);
  await crowd.leave();
  if (crowd.granted !== waiters) throw new Error(`${crowd.granted} of ${waiters} were granted`);
  return { unrelatedNs: crowded, aloneNs: alone, growth: crowded / alone };
}

/**
 * @param {() => unknown} batch
 * @param {number} milliseconds
 */
async function bestOf(batch, milliseconds) {
  const end = performance.now() + milliseconds;
  let best = Infinity;
  do {
    const started = performance.now();
    await batch();
    best = Math.min(best, performance.now() - started);
  } while (performance.now() < end);
  return (best * 1e6) / BATCH;
}

/** @type {Record<import('../workloads/index.mjs').WaitersWorkload['measure'], Measure>} */
const measures = {
  memory,
  lockMemory,
  heldMemory,
  cancel,
  unrelatedAsync: (subject, effort, workload) =>
    unrelated(subject, effort, workload, (lock) => {
      const settled = Promise.resolve();
      const section = () => settled;
      return async () => {
        for (let i = 0; i < BATCH; i++) await lock.run(FREE, section);
      };
    }),
  unrelatedSync: (subject, effort, workload) =>
    unrelated(subject, effort, workload, (lock) => () => {
      for (let i = 0; i < BATCH; i++) lock.release(lock.acquireSync(FREE));
    }),
};

/** @type {import('./index.mjs').Runner<import('../workloads/index.mjs').WaitersWorkload>} */
export function measureWaiters(workload, subject, effort) {
  return measures[workload.measure](subject, effort, workload);
}
