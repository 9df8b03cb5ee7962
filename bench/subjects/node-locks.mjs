import * as threads from 'node:worker_threads';

const SHARED = { mode: 'shared' };

/**
 * The Web Locks of Node itself, from 24.5 on. Several keys would be one request within the other, in the caller's
 * order: that is the caller's doing, and is not measured as if it were the library's.
 *
 * @type {import('./index.mjs').Subject}
 */
export const nodeLocks = {
  name: 'Node locks',
  packages: [],
  can: ['run', 'shared', 'abort', 'threads'],
  limit: () => (threads.locks === undefined ? `Node ${process.versions.node} has none` : undefined),
  create: () => undefined,
  open: () => {
    const { locks } = threads;
    return {
      run: (key, section, signal) =>
        signal === undefined ? locks.request(key, section) : locks.request(key, { signal }, section),
      runShared: (key, section) => locks.request(key, SHARED, section),
    };
  },
};
