import * as workerThreads from 'node:worker_threads';

const SHARED = { mode: 'shared' };

/**
 * Not in the types of the oldest version of Node that stripelock runs on.
 *
 * @typedef {object} LockManager
 * @property {(name: string, ...rest: any[]) => Promise<unknown>} request
 */

const { locks } = /** @type {{ locks?: LockManager }} */ (/** @type {unknown} */ (workerThreads));

/**
 * The Web Locks of Node itself, from 24.5 on. For several keys the caller would have to nest requests, in its own
 * order. That is not an ability of the library, so it is not measured.
 *
 * @type {import('./index.mjs').Subject}
 */
export const nodeLocks = {
  name: 'Node locks',
  packages: [],
  can: ['run', 'shared', 'abort', 'threads'],
  // Between threads, on 24.21 and 26.10: with 64 names and a request under way in each of 4 threads, 72 of 289,286
  // callbacks ran while another thread's for the same name had not ended.
  unsound: true,
  limit: ({ group, threads = 1, inFlight = 1 }) => {
    if (locks === undefined) return `Node ${process.versions.node} has none`;
    // Measured on 24.21: 1000 requests for one key are queued in 37 ms, 4000 in 0.2 s, 16,000 in 2.2 s. From several
    // threads 40,000 were not served within a minute.
    if (group === 'waiters') return 'takes minutes to queue 100,000';
    return threads > 1 && inFlight >= 10_000 ? 'takes minutes to serve that many' : undefined;
  },
  create: () => undefined,
  open: () => {
    if (locks === undefined) throw new Error(`Node ${process.versions.node} has none`);
    return {
      run: (key, section, signal) =>
        signal === undefined ? locks.request(key, section) : locks.request(key, { signal }, section),
      runShared: (key, section) => locks.request(key, SHARED, section),
    };
  },
};
