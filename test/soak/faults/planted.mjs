// Stores and clocks with one bug each, to show that the checker finds it. None of it is in the package.

import { command } from '../../support/redis-wire.mjs';

/** @typedef {import('stripelock').LeaseStore} LeaseStore */
/** @typedef {{ remove(key: string): Promise<boolean>, count(key: string): Promise<bigint> }} Backdoor */

export const PLANTS = ['release-without-compare', 'plain-counter', 'deadline-from-reply'];

/**
 * What a broken store does behind the back of a correct one.
 *
 * @param {number} port
 * @returns {Backdoor}
 */
export function redisBackdoor(port) {
  return {
    async remove(key) {
      const names = (await command(port, 'KEYS', `stripelock:*:${key}`)).split('\r\n');
      const name = names.find((line) => line.startsWith('stripelock:'));
      return name !== undefined && (await command(port, 'DEL', name)) === ':1';
    },
    count: async (key) => BigInt((await command(port, 'INCR', `counter:${key}`)).slice(1)),
  };
}

/**
 * @param {any} database
 * @returns {Backdoor}
 */
export function sqliteBackdoor(database) {
  database.exec('CREATE TABLE IF NOT EXISTS stripelock_counter (key TEXT PRIMARY KEY, value INTEGER)');
  const remove = database.prepare('DELETE FROM stripelock_leases WHERE key = ?');
  const count = database.prepare(
    'INSERT INTO stripelock_counter VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET value = value + 1 RETURNING value',
  );
  return {
    remove: (key) => Promise.resolve(Number(remove.run(key).changes) > 0),
    count: (key) => Promise.resolve(BigInt(count.get(key).value)),
  };
}

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
  // A clock that stands still while a request is pending: the deadline counts from the reply.
  const clock = new StandingClock();
  /** @type {LeaseStore['tryAcquire']} */
  const tryAcquire = (key, owner, ttl) => clock.standDuring(() => store.tryAcquire(key, owner, ttl));
  return { store: { ...operations, tryAcquire }, clock };
}

class StandingClock {
  #stood = 0;
  /** @type {number | undefined} */
  #since;

  now() {
    return (this.#since ?? performance.now()) - this.#stood;
  }

  /**
   * @template T
   * @param {() => Promise<T>} request
   */
  async standDuring(request) {
    this.#since = performance.now();
    try {
      return await request();
    } finally {
      this.#stood += performance.now() - this.#since;
      this.#since = undefined;
    }
  }
}
