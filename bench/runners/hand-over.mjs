// Hand-over latency: one thread holds the key while another waits for it. Measures from the last statement under the
// lock in one thread to the first in the other.

import { Worker } from 'node:worker_threads';
import { Waits } from '../support/waits.mjs';
import { told } from './told.mjs';

/** Words of the shared memory. */
export const TURN = 0;
export const STOPPED = 1;
export const WORDS = 2;

/** Whose move it is, in word TURN. */
export const GIVER = 0;
export const HELD = 1;
export const WAITING = 2;

/** @type {import('./index.mjs').Runner<import('../workloads/index.mjs').HandOverWorkload>} */
export async function measureHandOver(workload, subject, effort) {
  const shared = subject.create({ stripes: workload.stripes });
  const control = new Int32Array(new SharedArrayBuffer(WORDS * 4));
  // When the giver last released the key, in nanoseconds of the clock that all threads of a process share.
  const releasedAt = new BigInt64Array(new SharedArrayBuffer(8));
  const workers = ['giver', 'taker'].map(
    (role) =>
      new Worker(new URL('./hand-over-worker.mjs', import.meta.url), {
        workerData: {
          workload: workload.name,
          subject: subject.name,
          role,
          shared,
          control,
          releasedAt,
          effort: effort.name,
        },
      }),
  );
  try {
    const [, taken] = await Promise.all(workers.map((worker) => told(worker, 'report')));
    const waits = new Waits();
    waits.add(taken.histogram);
    if (taken.early > 0) throw new Error(`${taken.early} times the key was taken before it was given back`);
    const { p50, p99, p999, max } = waits.percentiles();
    return { handOver50: p50, handOver99: p99, handOver999: p999, handOverMax: max };
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}
