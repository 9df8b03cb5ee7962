// What the subjects of all stores have in common.

import { LeaseManager } from '../../support/package.mjs';

/** Milliseconds. */
export const TTL = 30_000;
const TIMEOUT = 60_000;

/**
 * A client of a subject. Its `release(held)` rejects if the lock was lost meanwhile.
 *
 * @typedef {Pick<import('../index.mjs').Lock, 'acquire' | 'release' | 'close'>} Client
 * @typedef {import('../index.mjs').Subject} Subject
 * @typedef {import('stripelock').LeaseStore} LeaseStore
 * @typedef {(store: LeaseStore, close: () => unknown) => Client} Make
 */

/**
 * @param {string} name
 * @param {readonly string[]} packages
 * @param {Subject['limit']} needs
 * @param {(shared: any) => Client | Promise<Client>} open
 * @param {Pick<Subject, 'create' | 'destroy'>} [shared] What its clients share.
 * @returns {Subject}
 */
export const subject = (name, packages, needs, open, shared) => ({
  name,
  packages,
  can: [],
  limit: needs,
  create: () => undefined,
  destroy: () => undefined,
  open,
  ...shared,
});

const lost = (/** @type {boolean} */ freed) => {
  if (!freed) throw new Error('the lease was lost');
};

/** @type {Make} */
export const managed = (store, close) => managedWith({ timeout: TIMEOUT }, store, close);

/**
 * How many may hold a key.
 *
 * @param {number} limit
 * @returns {Make}
 */
export const permits = (limit) => (store, close) => managedWith({ timeout: TIMEOUT, limit }, store, close);

/**
 * @param {import('stripelock').AcquireLeaseOptions} options
 * @param {LeaseStore} store
 * @param {() => unknown} close
 * @returns {Client}
 */
function managedWith(options, store, close) {
  const manager = new LeaseManager({ store, ttl: TTL });
  return {
    acquire: (key) => manager.acquire(key, options),
    release: async (lease) => lost(await lease.release()),
    async close() {
      await manager.close();
      await store.close?.();
      await close();
    },
  };
}

let clients = 0;

/** @type {Make} */
export function alone(store, close) {
  const owner = `owner:${process.pid}:${clients++}`;
  return {
    async acquire(key) {
      if ((await store.tryAcquire(key, owner, TTL)) === undefined) throw new Error('the key was taken');
      return key;
    },
    release: async (key) => lost(await store.release(key, owner)),
    async close() {
      await store.close?.();
      await close();
    },
  };
}
