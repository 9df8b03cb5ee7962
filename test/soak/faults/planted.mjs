// Stores and clocks with one bug each, to show that the checker finds it. None of it is in the package.

/** @typedef {import('stripelock').LeaseStore} LeaseStore */
/** @typedef {import('./store-faults.mjs').Backdoor} Backdoor */

export const PLANTS = [
  'release-without-compare',
  'plain-counter',
  'deadline-from-reply',
  'never-abandoned',
  'always-abandoned',
  'reader-frees-all',
  'readers-not-put-off',
];

/**
 * Returns the store to use instead, and the manager's clock if that has the bug.
 *
 * @param {string} bug
 * @param {LeaseStore} store
 * @param {() => Backdoor} openBackdoor
 * @returns {{ store: LeaseStore, clock?: import('stripelock').LeaseManagerOptions['clock'] }}
 */
export function plant(bug, store, openBackdoor) {
  const backdoor = openBackdoor();
  /** @type {LeaseStore} */
  const operations = {
    tryAcquire: (key, owner, ttl) => store.tryAcquire(key, owner, ttl),
    renew: (key, owner, ttl) => store.renew(key, owner, ttl),
    release: (key, owner) => store.release(key, owner),
    inspect: (key) => store.inspect(key),
  };
  if (bug === 'release-without-compare') {
    return { store: { ...operations, release: (key) => backdoor.remove(key) } };
  }
  if (bug === 'plain-counter') {
    /** @type {LeaseStore['tryAcquire']} */
    const tryAcquire = async (key, owner, ttl) => {
      const token = await store.tryAcquire(key, owner, ttl);
      return token === undefined ? undefined : backdoor.count(key);
    };
    return { store: { ...operations, tryAcquire } };
  }
  if (bug === 'never-abandoned') return { store: reporting(operations, false) };
  if (bug === 'always-abandoned') return { store: reporting(operations, true) };
  if (bug === 'reader-frees-all' || bug === 'readers-not-put-off') {
    const { tryAcquireShared, releaseShared } = /** @type {import('stripelock').SharedLeaseStore} */ (store);
    /** @type {import('stripelock').SharedLeaseStore} */
    const sharing = {
      ...operations,
      tryAcquireShared: tryAcquireShared.bind(store),
      releaseShared: bug === 'reader-frees-all' ? (key) => backdoor.remove(key) : releaseShared.bind(store),
      putOffReaders: async () => bug === 'readers-not-put-off',
    };
    return { store: sharing };
  }
  // A clock that stands still while a request is pending: the deadline counts from the reply.
  const clock = new StandingClock();
  /** @type {LeaseStore['tryAcquire']} */
  const tryAcquire = (key, owner, ttl) => clock.standDuring(() => store.tryAcquire(key, owner, ttl));
  return { store: { ...operations, tryAcquire }, clock };
}

/**
 * A store that reports the same of each last lease, whether its holder released it or died.
 *
 * @param {LeaseStore} store
 * @param {boolean} abandoned
 * @returns {import('stripelock').AbandonmentLeaseStore}
 */
function reporting(store, abandoned) {
  return {
    ...store,
    async tryAcquire(key, owner, ttl, _info, details) {
      const token = await store.tryAcquire(key, owner, ttl);
      if (details !== undefined && token !== undefined) details.abandoned = [abandoned];
      return token;
    },
    keep: (key, owner, ttl) => store.renew(key, owner, ttl),
    takeBack: (key, owner) => store.release(key, owner),
  };
}

/** Requests may overlap: one of an acquisition that has ended may still be pending when the next one begins. */
export class StandingClock {
  #stood = 0;
  #pending = 0;
  /** Since when it has stood; only while something is pending. */
  #since = 0;

  now() {
    return (this.#pending > 0 ? this.#since : performance.now()) - this.#stood;
  }

  /**
   * @template T
   * @param {() => Promise<T>} request
   */
  async standDuring(request) {
    if (this.#pending++ === 0) this.#since = performance.now();
    try {
      return await request();
    } finally {
      if (--this.#pending === 0) this.#stood += performance.now() - this.#since;
    }
  }
}
