// The cost of a crowd of waiters: memory, cancelling them, and using another key meanwhile. One thread.

import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { linearRegression } from 'simple-statistics';
import { randomFrom } from '../../test/workers/random.mjs';
import { openLock } from '../subjects/index.mjs';

/** @typedef {import('../subjects/index.mjs').Lock} Lock */

/**
 * @callback Measure
 * @param {import('../subjects/index.mjs').Subject} subject
 * @param {import('../effort.mjs').Effort} effort
 * @param {{ stripes: number }} workload
 * @returns {Promise<import('./index.mjs').Figures>}
 */

const HELD = 'account:1234567';
const FREE = 'account:7654321';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc');

/** Created once: an AbortSignal's own reason, with its stack, would cost more than everything else. */
const CANCELLED = new Error('cancelled');

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A key that is held, and waiters that queue for it. */
class Crowd {
  #lock;
  /** @type {(() => void) | undefined} */
  #letGo;
  /** @type {Promise<unknown> | undefined} */
  #holder;
  /** @type {Promise<unknown>[]} */
  #requests = [];
  granted = 0;
  aborted = 0;

  /** @param {Lock} lock */
  constructor(lock) {
    this.#lock = lock;
  }

  /** Resolves when the key is held. */
  hold() {
    /** @type {Promise<void>} */
    const gate = new Promise((resolve) => {
      this.#letGo = resolve;
    });
    /** @type {Promise<void>} */
    const held = new Promise((resolve, reject) => {
      this.#holder = this.#lock.run(HELD, () => {
        resolve();
        return gate;
      });
      this.#holder.catch(reject);
    });
    return held;
  }

  /**
   * @param {number} count
   * @param {(i: number) => AbortSignal | undefined} [signalOf]
   */
  join(count, signalOf = () => undefined) {
    const settled = Promise.resolve();
    const section = () => {
      this.granted++;
      return settled;
    };
    const aborted = (/** @type {unknown} */ error) => {
      if (error !== CANCELLED) throw error;
      this.aborted++;
    };
    for (let i = 0; i < count; i++) {
      const signal = signalOf(i);
      const request = this.#lock.run(HELD, section, signal);
      this.#requests.push(signal === undefined ? request : request.catch(aborted));
    }
  }

  /** Resolves when all waiters have been granted or aborted. */
  settled() {
    return Promise.all(this.#requests);
  }

  async leave() {
    this.#letGo?.();
    await this.#holder;
    await this.settled();
  }
}

/**
 * @param {import('../subjects/index.mjs').Subject} subject
 * @param {number} stripes
 */
async function crowdOf(subject, stripes) {
  const lock = openLock(subject, subject.create({ stripes }));
  const crowd = new Crowd(lock);
  await crowd.hold();
  return { lock, crowd };
}

/** Points on the line whose slope is the memory of one waiter. */
const STEPS = 10;

/**
 * Bytes for each waiter. The heap is what V8 counts as used by objects, after a collection. Native memory is what the
 * process takes beyond the pages that V8 has touched; a subject without native code shows the error. These are slopes,
 * not differences, because the first waiters also pay for what is needed only once.
 *
 * @type {Measure}
 */
async function memory(subject, { waiters }, { stripes }) {
  const { crowd } = await crowdOf(subject, stripes);
  /** @type {Record<'native' | 'heap' | 'total', [waiters: number, bytes: number][]>} */
  const points = { native: [], heap: [], total: [] };
  for (let step = 0; step <= STEPS; step++) {
    if (step > 0) crowd.join(waiters / STEPS);
    await turn();
    collectGarbage();
    await turn();
    collectGarbage();
    const { rss, heapUsed } = process.memoryUsage();
    const count = (step * waiters) / STEPS;
    points.native.push([count, rss - getHeapStatistics().total_physical_size]);
    points.heap.push([count, heapUsed]);
    points.total.push([count, rss]);
  }
  const { granted } = crowd;
  await crowd.leave();
  if (granted !== 0 || crowd.granted !== waiters)
    throw new Error(`${crowd.granted} of ${waiters} were granted`);
  const slope = (/** @type {keyof typeof points} */ name) => linearRegression(points[name]).m;
  return { nativeBytes: slope('native'), heapBytes: slope('heap'), totalBytes: slope('total') };
}

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
  await turn();
  collectGarbage();
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
