// The memory of waiters, of locks and of held keys.

import { getHeapStatistics } from 'node:v8';
import { linearRegression } from 'simple-statistics';
import { openLock } from '../subjects/index.mjs';
import { collectGarbage } from '../support/garbage.mjs';
import { crowdOf, HELD } from './crowd.mjs';

/** @typedef {import('../subjects/index.mjs').Lock} Lock */
/** @typedef {import('./waiters.mjs').Measure} Measure */

/** Points on the line whose slope is the memory of one waiter. */
const STEPS = 10;

/**
 * Bytes for each waiter. The heap is what V8 counts as used by objects, after a collection. Native memory is what the
 * process takes beyond the pages that V8 has touched; a subject without native code shows the error. These are slopes,
 * not differences, because the first waiters also pay for what is needed only once.
 *
 * @type {Measure}
 */
export async function memory(subject, { waiters }, { stripes }) {
  const { crowd } = await crowdOf(subject, stripes);
  const figures = await bytesForEach(waiters, (count) => crowd.join(count));
  const { granted } = crowd;
  await crowd.leave();
  if (granted !== 0 || crowd.granted !== waiters)
    throw new Error(`${crowd.granted} of ${waiters} were granted`);
  return figures;
}

/**
 * @param {number} all
 * @param {(count: number) => unknown} add
 * @returns {Promise<import('./index.mjs').Figures>}
 */
async function bytesForEach(all, add) {
  /** @type {Record<'native' | 'heap' | 'total', [count: number, bytes: number][]>} */
  const points = { native: [], heap: [], total: [] };
  for (let step = 0; step <= STEPS; step++) {
    if (step > 0) await add(all / STEPS);
    await collectGarbage();
    const { rss, heapUsed } = process.memoryUsage();
    const count = (step * all) / STEPS;
    points.native.push([count, rss - getHeapStatistics().total_physical_size]);
    points.heap.push([count, heapUsed]);
    points.total.push([count, rss]);
  }
  const slope = (/** @type {keyof typeof points} */ name) => linearRegression(points[name]).m;
  return { nativeBytes: slope('native'), heapBytes: slope('heap'), totalBytes: slope('total') };
}

/** Fewer locks than waiters. */
const WAITERS_TO_A_LOCK = 100;

/**
 * Bytes of a lock that was used once and is idle.
 *
 * @type {Measure}
 */
export async function lockMemory(subject, { waiters }, { stripes }) {
  /** @type {Lock[]} */
  const locks = [];
  const settled = Promise.resolve();
  const count = STEPS * Math.ceil(waiters / WAITERS_TO_A_LOCK / STEPS);
  const figures = await bytesForEach(count, async (more) => {
    for (let i = 0; i < more; i++) {
      const lock = openLock(subject, subject.create({ stripes }));
      await lock.run(HELD, () => settled);
      locks.push(lock);
    }
  });
  if (locks.length !== count) throw new Error(`${locks.length} locks were made`);
  return figures;
}

/** The stripes of a lock whose keys are all held at once: enough that few keys share one. */
const MANY_STRIPES = 1 << 20;

/**
 * Bytes of a held key, an integer. A key whose stripe is taken is passed over.
 *
 * @type {Measure}
 */
export async function heldMemory(subject, { waiters }) {
  const lock = openLock(subject, subject.create({ stripes: MANY_STRIPES }));
  /** @type {unknown[]} */
  const held = [];
  let key = 0;
  const hold = subject.can.includes('try')
    ? () => lock.tryAcquire(key++)
    : () => lock.run(String(key++), () => new Promise((resolve) => held.push(resolve)));
  const figures = await bytesForEach(waiters, (count) => {
    const wanted = held.length + count;
    while (held.length < wanted) {
      const guard = hold();
      if (subject.can.includes('try') && guard !== undefined) held.push(guard);
    }
  });
  if (held.length !== waiters) throw new Error(`${held.length} of ${waiters} are held`);
  return figures;
}
