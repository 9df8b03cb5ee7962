// Locks whose holders are processes: stripelock's stores for Redis and SQLite, and redlock. Each library is loaded only
// in processes that measure it.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { sqliteDrivers } from '../../test/support/sqlite-drivers.mjs';
import { LeaseManager, loadRedisStore, loadSqliteStore } from '../support/package.mjs';
import { redisPort } from '../support/redis.mjs';

/** Milliseconds. */
const TTL = 30_000;
const TIMEOUT = 60_000;

/**
 * A client of a subject. Its `release(held)` rejects if the lock was lost meanwhile.
 *
 * @typedef {Pick<import('./index.mjs').Lock, 'acquire' | 'release' | 'close'>} Client
 * @typedef {import('./index.mjs').Subject} Subject
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
const subject = (name, packages, needs, open, shared) => ({
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
function managed(store, close) {
  const manager = new LeaseManager({ store, ttl: TTL });
  const options = { timeout: TIMEOUT };
  return {
    acquire: (key) => manager.acquire(key, options),
    release: async (lease) => lost(await lease.release()),
    async close() {
      await manager.close();
      await store.close?.();
      close();
    },
  };
}

let clients = 0;

/** @type {Make} */
function alone(store, close) {
  const owner = `owner:${process.pid}:${clients++}`;
  return {
    async acquire(key) {
      if ((await store.tryAcquire(key, owner, TTL)) === undefined) throw new Error('the key was taken');
      return key;
    },
    release: async (key) => lost(await store.release(key, owner)),
    async close() {
      await store.close?.();
      close();
    },
  };
}

const needsRedis = () => (redisPort() === undefined ? 'there is no redis-server on the PATH' : undefined);

async function connect() {
  const { Redis } = await import('ioredis');
  const client = new Redis(Number(redisPort()), '127.0.0.1');
  await client.ping();
  return client;
}

/**
 * @param {string} name
 * @param {readonly string[]} packages
 * @param {(client: import('ioredis').Redis) => Client | Promise<Client>} open
 */
const redisSubject = (name, packages, open) =>
  subject(name, ['ioredis', ...packages], needsRedis, async () => open(await connect()));

/**
 * @param {string} name
 * @param {Make} make
 */
const redisStore = (name, make) =>
  redisSubject(name, ['stripelock'], async (client) => {
    const { redisLeaseStore } = await loadRedisStore();
    return make(redisLeaseStore({ client }), () => client.disconnect());
  });

/**
 * @param {string} name
 * @param {object} settings Of redlock.
 */
const redlock = (name, settings) =>
  redisSubject(name, ['redlock'], async (client) => {
    // @ts-expect-error Its types are not where its `exports` say.
    const { default: Redlock } = await import('redlock');
    const lock = new Redlock([client], settings);
    return {
      acquire: (key) => lock.acquire([key], TTL),
      release: (held) => held.release(),
      close: () => client.disconnect(),
    };
  });

/** @type {Pick<Subject, 'create' | 'destroy'>} */
const folderOfFile = {
  create: () => mkdtempSync(path.join(os.tmpdir(), 'stripelock-bench-')),
  destroy: (folder) => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }),
};

/**
 * @param {string} name
 * @param {Make} make
 */
const sqliteSubject = (name, make) =>
  subject(
    name,
    ['stripelock'],
    () => (sqliteDrivers.length === 0 ? 'there is neither node:sqlite nor better-sqlite3 for it' : undefined),
    async (folder) => {
      const { sqliteLeaseStore } = await loadSqliteStore();
      const database = sqliteDrivers[0].open(path.join(folder, 'leases.db'));
      database.exec('PRAGMA synchronous = NORMAL');
      return make(sqliteLeaseStore({ database }), () => database.close());
    },
    folderOfFile,
  );

/**
 * Two round trips to a script that does nothing.
 *
 * @type {Subject}
 */
const roundTrips = {
  ...redisSubject('floor: two calls of an empty script', [], async (client) => {
    const sha = String(await client.script('LOAD', 'return 1'));
    return {
      acquire: (key) => client.evalsha(sha, 1, key),
      release: () => client.evalsha(sha, 1, 'key'),
      close: () => client.disconnect(),
    };
  }),
  excludes: false,
};

export const REDIS_MANAGER = 'stripelock over Redis';
/** It never gives up, like all others here. */
const FOR_EVER = { retryCount: -1 };
export const REDLOCK = 'redlock';
export const REDLOCK_SHORT = 'redlock, retries after 0 to 2 ms';

export const storeSubjects = {
  roundTrips,
  redis: redisStore(REDIS_MANAGER, managed),
  redisAlone: redisStore('stripelock over Redis, store alone', alone),
  /** Default settings: it tries again after 100 to 300 ms. */
  redlock: redlock(REDLOCK, FOR_EVER),
  /** The shortest pauses that timers allow. */
  redlockShort: redlock(REDLOCK_SHORT, { ...FOR_EVER, retryDelay: 1, retryJitter: 1 }),
  sqlite: sqliteSubject('stripelock over SQLite', managed),
  sqliteAlone: sqliteSubject('stripelock over SQLite, store alone', alone),
};
