// Leases over Redis, and redlock. Each library is loaded only in processes that measure it.

import { redisCommand, RedisServer } from '../../../test/support/redis-server.mjs';
import { loadStore } from '../../support/package.mjs';
import { lack, placeOf } from '../../support/servers.mjs';
import { alone, managed, permits, subject, TTL } from './clients.mjs';

/**
 * @typedef {import('./clients.mjs').Client} Client
 * @typedef {import('./clients.mjs').Make} Make
 * @typedef {import('../index.mjs').Subject} Subject
 */

/** @type {import('../../support/servers.mjs').Server} */
export const redisServer = {
  name: 'redis',
  missing: redisCommand === undefined ? 'redis-server on the PATH' : undefined,
  async start() {
    const server = await RedisServer.start();
    return { place: String(server.port), stop: () => server.stop() };
  },
};

/** Milliseconds. */
const TIMEOUT = 60_000;

const needsRedis = () => lack(redisServer);

async function connect() {
  const { Redis } = await import('ioredis');
  const client = new Redis(Number(placeOf('redis')), '127.0.0.1');
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
    const { redisLeaseStore } = await loadStore('redis');
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

/** How many may hold a key, where a workload says that there are permits. */
export const PERMITS = 3;

/**
 * @param {string} name
 * @param {object} settings
 */
const semaphore = (name, settings) =>
  redisSubject(name, ['redis-semaphore'], async (client) => {
    const { Semaphore } = await import('redis-semaphore');
    const options = { lockTimeout: TTL, acquireTimeout: TIMEOUT, ...settings };
    /** One for each key: it holds one permit at a time. */
    const semaphores = new Map();
    const semaphoreOf = (/** @type {string} */ key) => {
      if (!semaphores.has(key)) semaphores.set(key, new Semaphore(client, key, PERMITS, options));
      return semaphores.get(key);
    };
    return {
      async acquire(key) {
        const held = semaphoreOf(key);
        await held.acquire();
        return held;
      },
      release: (held) => held.release(),
      close: () => client.disconnect(),
    };
  });

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
export const REDIS_PERMITS = 'stripelock over Redis, permits';
export const SEMAPHORE = 'redis-semaphore';
export const SEMAPHORE_SHORT = 'redis-semaphore, retries after 1 ms';
export const REDLOCK = 'redlock';
export const REDLOCK_SHORT = 'redlock, retries after 0 to 2 ms';

export const redisSubjects = {
  roundTrips,
  redis: redisStore(REDIS_MANAGER, managed),
  redisAlone: redisStore('stripelock over Redis, store alone', alone),
  /** Default settings: it tries again after 100 to 300 ms. */
  redlock: redlock(REDLOCK, FOR_EVER),
  redisPermits: redisStore(REDIS_PERMITS, permits(PERMITS)),
  /** Default settings: it tries again after 10 ms. */
  semaphore: semaphore(SEMAPHORE, {}),
  semaphoreShort: semaphore(SEMAPHORE_SHORT, { retryInterval: 1 }),
  /** The shortest pauses that timers allow. */
  redlockShort: redlock(REDLOCK_SHORT, { ...FOR_EVER, retryDelay: 1, retryJitter: 1 }),
};
