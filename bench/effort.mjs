/**
 * How long a run takes, and so how reliable its figures are.
 *
 * @typedef {object} Effort
 * @property {'full' | 'default' | 'quick' | 'smoke'} name
 * @property {number} rounds How often each subject is measured, at most; each time in a separate process, except with
 *   `smoke`.
 * @property {number} warmup Milliseconds before anything counts.
 * @property {number} window Milliseconds that are measured, of threads.
 * @property {number} sampling Milliseconds for which samples are taken in a single thread.
 * @property {number} longest Milliseconds that warm-up and window may each last, if enough requests are pending that
 *   not all get their turn earlier.
 * @property {number} mostThreads Workloads with more threads are measured with this many; only used if no figure is
 *   shown.
 * @property {number} waiters The number of waiters in workloads with many.
 * @property {number} limit Milliseconds after which a measurement that has not ended counts as failed.
 */

/** @type {Record<Effort['name'], Effort>} */
export const efforts = {
  full: {
    name: 'full',
    rounds: 5,
    warmup: 150,
    window: 500,
    sampling: 500,
    longest: 10_000,
    mostThreads: Infinity,
    waiters: 100_000,
    limit: 120_000,
  },
  default: {
    name: 'default',
    rounds: 5,
    warmup: 80,
    window: 380,
    sampling: 280,
    longest: 2000,
    mostThreads: Infinity,
    waiters: 100_000,
    limit: 120_000,
  },
  quick: {
    name: 'quick',
    rounds: 2,
    warmup: 80,
    window: 60,
    sampling: 60,
    longest: 1000,
    mostThreads: Infinity,
    waiters: 100_000,
    limit: 60_000,
  },
  smoke: {
    name: 'smoke',
    rounds: 1,
    warmup: 1,
    window: 4,
    sampling: 4,
    longest: 40,
    mostThreads: 2,
    waiters: 500,
    limit: 20_000,
  },
};
