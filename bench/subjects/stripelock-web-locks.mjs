import { loadWebLocks } from '../support/package.mjs';

const SHARED = /** @type {const} */ ({ mode: 'shared' });

/** Undefined if the build that is measured has none. */
const { locks } = await loadWebLocks().catch(() => ({ locks: undefined }));

/**
 * Web locks on stripelock: the same API as `nodeLocks`.
 *
 * @type {import('./index.mjs').Subject}
 */
export const stripelockWebLocks = {
  name: 'stripelock web locks',
  packages: ['stripelock'],
  can: ['run', 'shared', 'abort', 'threads'],
  limit: () => (locks === undefined ? 'this build has none' : undefined),
  create: () => undefined,
  open: () => {
    if (locks === undefined) throw new Error('this build has none');
    return {
      run: (key, section, signal) =>
        signal === undefined ? locks.request(key, section) : locks.request(key, { signal }, section),
      runShared: (key, section) => locks.request(key, SHARED, section),
    };
  },
};
