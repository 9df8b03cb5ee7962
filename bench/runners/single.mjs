// Uncontended workloads, by Benchmark.js.

import Benchmark from 'benchmark';
import { openLock } from '../subjects/index.mjs';
import { loops } from './loops.mjs';
import { openAndDrop, useInEveryWay } from './use-before.mjs';
import { prove } from './proofs.mjs';

/** Milliseconds that one call timed by Benchmark.js takes at least, so that its own cost does not show. */
const BATCH = 1;
/** Seconds to a sample. Short, so that on a busy machine some of the samples are undisturbed. */
const SAMPLE = 0.02;

/**
 * One round of one subject. Its figure is the best sample: other load on the machine, the garbage collector and the
 * compiler only add time to a sample. Differences between processes (the layout of memory, the choices of the compiler)
 * belong to the subject, so the median of several rounds counts, not the best.
 *
 * @type {import('./index.mjs').Runner<import('../workloads/index.mjs').SingleWorkload>}
 */
export async function measureSingle(workload, subject, effort) {
  if (workload.mixed) await useInEveryWay(subject, workload);
  if (workload.dropped !== undefined) await openAndDrop(subject, workload, workload.dropped);
  const lock = await openLock(subject, subject.create({ stripes: workload.stripes }));
  const held = Array.from({ length: workload.held ?? 0 }, (_, i) => lock.acquireSync(`held:${i}`));
  const counter = new Float64Array(new SharedArrayBuffer(8));
  const keys = workload.makeKeys();
  const loop = loops[workload.operation](lock, keys, counter);
  let done = 0;
  const batch = (/** @type {number} */ count) => {
    done += count;
    return loop(count);
  };
  const count = await warmUp(batch, effort.warmup);
  const { sample, mean } = await timed(batch, count, effort);
  if (counter[0] !== done) throw new Error(`${done} operations counted ${counter[0]}`);
  if (!workload.floors.includes(subject)) await prove(lock, subject, workload.operation, keys);
  for (const guard of held) lock.release(guard);
  await lock.close?.();
  const nanoseconds = (/** @type {number} */ seconds) => (seconds * 1e9) / count;
  return { nsPerOp: nanoseconds(Math.min(...sample)), meanNsPerOp: nanoseconds(mean) };
}

/**
 * Resolves to how many operations make a batch.
 *
 * @param {import('../subjects/index.mjs').Batch} batch
 * @param {number} milliseconds
 */
async function warmUp(batch, milliseconds) {
  const end = performance.now() + milliseconds;
  let count = 1;
  for (;;) {
    const started = performance.now();
    await batch(count);
    const now = performance.now();
    if (now >= end) return count;
    if (now - started < BATCH) count *= 2;
  }
}

/**
 * @param {import('../subjects/index.mjs').Batch} batch
 * @param {number} count
 * @param {import('../effort.mjs').Effort} effort
 * @returns {Promise<Benchmark.Stats>}
 */
function timed(batch, count, { sampling }) {
  const settings = {
    maxTime: sampling / 1000,
    minTime: Math.min(SAMPLE, sampling / 4000),
    minSamples: 1,
  };
  const asynchronous = batch(0) instanceof Promise;
  return new Promise((resolve, reject) => {
    const fn = asynchronous
      ? (/** @type {{ resolve(): void }} */ deferred) =>
          /** @type {Promise<unknown>} */ (batch(count)).then(() => deferred.resolve(), reject)
      : () => batch(count);
    new Benchmark({
      ...settings,
      defer: asynchronous,
      fn,
      onError: (/** @type {{ target: Benchmark & { error: Error } }} */ { target }) => reject(target.error),
      onComplete: (/** @type {{ target: Benchmark }} */ { target }) => resolve(target.stats),
    }).run({ async: asynchronous });
  });
}
