// Contended workloads: the controlling side. Starts the threads, releases them all at once, opens and closes the window
// in which operations count, and checks that no write under the lock was lost.

import { Worker } from 'node:worker_threads';
import { setTimeout as sleep } from 'node:timers/promises';
import { Arena, MEASURE, STOP, WARM_UP } from '../support/arena.mjs';
import { Waits } from '../support/waits.mjs';
import { Miscount } from './miscount.mjs';
import { told } from './told.mjs';

/**
 * One round of one subject.
 *
 * @type {import('./index.mjs').Runner<import('../workloads/index.mjs').ThreadsWorkload>}
 */
export async function measureThreads(workload, subject, effort, iterationsPerNanosecond) {
  const { keys, stripes } = workload;
  const threads = Math.min(workload.threads, effort.mostThreads);
  const arena = new Arena(threads, keys);
  const shared = subject.create({ stripes });
  const iterations = Math.round((workload.section ?? 0) * iterationsPerNanosecond);
  const workers = Array.from(
    { length: threads },
    (_, thread) =>
      new Worker(new URL('./threads-worker.mjs', import.meta.url), {
        workerData: {
          workload: workload.name,
          subject: subject.name,
          shared,
          memory: arena.memory,
          threads,
          thread,
          iterations,
        },
      }),
  );
  try {
    await Promise.all(workers.map((worker) => told(worker, 'ready')));
    const reports = Promise.all(workers.map((worker) => told(worker, 'report')));
    arena.enter(WARM_UP);
    for (const worker of workers) worker.postMessage('start');
    const window = await timeWindow(arena, threads * (workload.inFlight ?? 1), effort, reports);
    const drain = subject.unsound ? DRAIN_UNSOUND : DRAIN;
    const all = await Promise.race([reports, sleep(drain, undefined, { ref: false })]);
    if (all === undefined)
      throw new Miscount('requests under way at the end were left waiting', summarize(window, []));
    const figures = summarize(window, all);
    verify(arena, all, figures);
    return figures;
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

/**
 * @typedef {object} Report Of one thread.
 * @property {number} writes
 * @property {number} torn
 * @property {import('node:perf_hooks').RecordableHistogram} histogram
 */

/** Milliseconds that pending work may take to finish. */
const DRAIN = 15_000;
/** The same for subjects whose pending work may never finish. */
const DRAIN_UNSOUND = 2000;
/** Milliseconds between checks of the threads' progress. */
const LOOK = 5;

/**
 * What each thread did, and in how long. The counts are read here, so a thread that sleeps for long cannot report late.
 *
 * If many requests are pending, both phases last until each of them has had its turn once, on average. Otherwise only
 * the requests made at the start would be measured.
 *
 * @param {Arena} arena
 * @param {number} enough Operations.
 * @param {import('../effort.mjs').Effort} effort
 * @param {Promise<unknown>} reports
 */
async function timeWindow(arena, enough, { warmup, window, longest }, reports) {
  // Ends early if a worker fails.
  const pause = async (/** @type {number} */ milliseconds, /** @type {number} */ before) => {
    const started = performance.now();
    for (;;) {
      await Promise.race([sleep(Math.min(LOOK, milliseconds)), reports]);
      const elapsed = performance.now() - started;
      const done = sum(arena.counts()) - before;
      if (elapsed >= longest || (elapsed >= milliseconds && done >= enough)) return elapsed / 1000;
    }
  };
  await pause(warmup, 0);
  arena.enter(MEASURE);
  const before = arena.counts();
  const seconds = await pause(window, sum(before));
  const after = arena.counts();
  arena.enter(STOP);
  return { done: after.map((count, thread) => count - before[thread]), seconds };
}

const sum = (/** @type {readonly number[]} */ numbers) => numbers.reduce((a, b) => a + b, 0);

/**
 * @param {Arena} arena
 * @param {readonly Report[]} reports
 * @param {import('./index.mjs').Figures} figures
 */
function verify(arena, reports, figures) {
  const writes = sum(reports.map((report) => report.writes));
  const { written } = arena;
  if (Number.isNaN(written))
    throw new Miscount(`${writes} writes under the lock, and at least one was left half-done`, figures);
  if (written !== writes)
    throw new Miscount(`${writes} writes under the lock, ${written} were kept`, figures);
  const torn = sum(reports.map((report) => report.torn));
  if (torn > 0) throw new Miscount(`${torn} times a holder saw another's half-done work`, figures);
}

/**
 * @param {{ done: number[], seconds: number }} window
 * @param {readonly Report[]} reports
 */
function summarize({ done, seconds }, reports) {
  const waits = new Waits();
  for (const { histogram } of reports) waits.add(histogram);
  const all = sum(done);
  const share = done.length > 1 && all > 0 ? { minShare: (Math.min(...done) * done.length) / all } : {};
  return { opsPerSecond: all / seconds, ...waits.percentiles(), ...share };
}
