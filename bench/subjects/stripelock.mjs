import { KeyedLock, StripedLock } from '../support/package.mjs';

/** Milliseconds. Finite, like the default, so that waiting costs what it costs users. Long enough never to run out. */
export const TIMEOUT = 120_000;
const SHARED = /** @type {const} */ ({ mode: 'shared' });

/**
 * @param {'native' | 'javascript'} engine
 * @returns {import('./index.mjs').Subject}
 */
export function stripelock(engine) {
  return {
    name: `stripelock ${engine}`,
    packages: ['stripelock'],
    can: ['sync', 'try', 'acquire', 'run', 'shared', 'many', 'abort', 'threads'],
    create: ({ stripes }) => new StripedLock({ engine, stripes, timeout: TIMEOUT }).handle,
    open: (handle) => openLock(StripedLock.from(handle)),
  };
}

/**
 * Locks on exact keys, with room for as many keys as by default.
 *
 * @type {import('./index.mjs').Subject}
 */
export const keyedLock = {
  name: 'KeyedLock native',
  packages: ['stripelock'],
  can: ['sync', 'try', 'acquire', 'run', 'shared', 'many', 'abort', 'threads'],
  // A package that is compared with may be older than the class.
  limit: () => (KeyedLock === undefined ? 'has no KeyedLock' : undefined),
  create: () => new KeyedLock({ engine: 'native', timeout: TIMEOUT }).handle,
  open: (handle) => openLock(KeyedLock.from(handle)),
};

/**
 * @param {InstanceType<typeof StripedLock> | InstanceType<typeof KeyedLock>} lock
 * @returns {Partial<import('./index.mjs').Lock>}
 */
export function openLock(lock) {
  return {
    acquireSync: (key) => lock.acquireSync(key),
    acquireManySync: (keys) => lock.acquireSync(keys),
    acquireSharedSync: (key) => lock.acquireSync(key, SHARED),
    tryAcquire: (key) => lock.tryAcquire(key),
    tryAcquireMany: (keys) => lock.tryAcquire(keys),
    tryAcquireShared: (key) => lock.tryAcquire(key, SHARED),
    acquire: (key) => lock.acquire(key),
    acquireMany: (keys) => lock.acquire(keys),
    acquireShared: (key) => lock.acquire(key, SHARED),
    release: (guard) => guard.release(),
    run: (key, section, signal) =>
      signal === undefined ? lock.withLock(key, section) : lock.withLock(key, { signal }, section),
  };
}
