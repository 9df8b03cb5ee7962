// What is measured of leases: the manager's ways to hold one, and the store alone. Other lease libraries use stores
// outside the process, which do not compare, so the ratios are to the floor.

import { LeaseManager, MemoryLeaseStore } from '../support/package.mjs';

const KEY = 'job:nightly';
const OWNER = 'owner';
const TTL = 30_000;
/** The other held leases outlast every measurement. */
const LONG = 3_600_000;
const MANY = 1_000_000;

/** @typedef {import('./index.mjs').Lock} Lock */

/**
 * @param {string} name
 * @param {() => Pick<Lock, 'loop' | 'close'> | Promise<Pick<Lock, 'loop' | 'close'>>} open
 * @returns {import('./index.mjs').Subject}
 */
const subject = (name, open) => ({
  name: `lease: ${name}`,
  packages: ['stripelock'],
  can: [],
  create: () => undefined,
  open,
});

// Each loop is written out, as those of the locks and the floor are.

/**
 * @param {string} name
 * @param {import('stripelock').LeaseManagerOptions} options
 */
function acquireAndRelease(name, options) {
  return subject(name, () => {
    const manager = new LeaseManager({ ttl: TTL, ...options });
    const loop = (/** @type {Float64Array} */ counter) => async (/** @type {number} */ count) => {
      for (let i = 0; i < count; i++) {
        const lease = await manager.acquire(KEY);
        if (!(await lease.release())) throw new Error('the lease was lost');
        counter[0]++;
      }
    };
    return { loop, close: () => manager.close() };
  });
}

const storeAlone = subject('store alone', () => {
  const store = new MemoryLeaseStore();
  const loop = (/** @type {Float64Array} */ counter) => async (/** @type {number} */ count) => {
    for (let i = 0; i < count; i++) {
      if ((await store.tryAcquire(KEY, OWNER, TTL)) === undefined) throw new Error('the key was taken');
      if (!(await store.release(KEY, OWNER))) throw new Error('the lease was lost');
      counter[0]++;
    }
  };
  return { loop };
});

/**
 * @param {Pick<import('stripelock').LeaseStore, 'tryAcquire'>} store
 * @param {number} count
 */
async function hold(store, count) {
  for (let i = 0; i < count; i++) await store.tryAcquire(`held:${i}`, 'other', LONG);
}

/**
 * @param {string} name
 * @param {number} heldBesides
 */
function renewal(name, heldBesides) {
  return subject(name, async () => {
    const manager = new LeaseManager({ ttl: TTL, renew: false });
    await hold(manager.store, heldBesides);
    const lease = await manager.acquire(KEY);
    const loop = (/** @type {Float64Array} */ counter) => async (/** @type {number} */ count) => {
      for (let i = 0; i < count; i++) {
        if (!(await lease.renew())) throw new Error('the lease was lost');
        counter[0]++;
      }
    };
    return { loop, close: () => manager.close() };
  });
}

/** Every operation uses a different key, so that no part of the table is in a cache. */
const amongMany = subject(`acquire + release among ${MANY.toLocaleString('en')} held`, async () => {
  const manager = new LeaseManager({ ttl: TTL, renew: false });
  await hold(manager.store, MANY);
  let next = 0;
  const loop = (/** @type {Float64Array} */ counter) => async (/** @type {number} */ count) => {
    for (let i = 0; i < count; i++) {
      next = (next + 7919) % MANY;
      const lease = await manager.acquire(`free:${next}`);
      if (!(await lease.release())) throw new Error('the lease was lost');
      counter[0]++;
    }
  };
  return { loop, close: () => manager.close() };
});

/** The cost of sweeping expired leases. */
const leasedOnce = subject('a new key each time, for 1 ms, never released', () => {
  const store = new MemoryLeaseStore();
  let next = 0;
  const loop = (/** @type {Float64Array} */ counter) => async (/** @type {number} */ count) => {
    for (let i = 0; i < count; i++) {
      if ((await store.tryAcquire(`once:${next++}`, OWNER, 1)) === undefined)
        throw new Error('the key was taken');
      counter[0]++;
    }
  };
  return { loop };
});

export const leaseSubjects = {
  acquisition: [
    acquireAndRelease('acquire + release, renewal off', { renew: false }),
    acquireAndRelease('acquire + release, renewal on', {}),
    storeAlone,
  ],
  renewal: [renewal('renew, one held', 0), renewal(`renew, among ${MANY.toLocaleString('en')} held`, MANY)],
  manyKeys: [amongMany, leasedOnce],
};
