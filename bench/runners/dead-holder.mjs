// The time from `terminate()` of a thread that holds a key to the first statement under the lock of one that waits for it.

import { once } from 'node:events';
import { createHistogram } from 'node:perf_hooks';
import { Worker } from 'node:worker_threads';
import { openLock } from '../subjects/index.mjs';

/** Holders, one after the other. */
const HOLDERS = 20;
/** Milliseconds after which nobody is woken any more. */
const LOST = 10_000;
const KEY = 'account:1234567';

/** @type {import('./index.mjs').Runner<import('../workloads/index.mjs').DeadHolderWorkload>} */
export async function measureDeadHolder({ stripes }, subject) {
  const shared = subject.create({ stripes });
  const lock = await openLock(subject, shared);
  const histogram = createHistogram();
  for (let i = 0; i < HOLDERS; i++) {
    const workerData = { subject: subject.name, shared, key: KEY };
    const worker = new Worker(new URL('./dead-holder-worker.mjs', import.meta.url), { workerData });
    await once(worker, 'message');
    const granted = lock.run(KEY, () => performance.now());
    const start = performance.now();
    const ended = worker.terminate();
    const lost = new Promise((_resolve, reject) =>
      setTimeout(reject, LOST, new Error(`nobody was woken within ${LOST / 1000} s`)).unref(),
    );
    const at = /** @type {number} */ (await Promise.race([granted, lost]));
    histogram.record(Math.max(1, Math.round((at - start) * 1e6)));
    await ended;
  }
  return { deadHolder50: histogram.percentile(50), deadHolderMax: histogram.max };
}
