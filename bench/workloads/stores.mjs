// Leases in stores outside the process. Every client has a connection of its own.

import { storeSubjects } from '../subjects/stores.mjs';
import { PERMITS } from '../subjects/stores/redis.mjs';

const { roundTrips, redis, redisAlone, redlock, redlockShort, sqlite, sqliteAlone } = storeSubjects;
const { redisPermits, semaphore, semaphoreShort } = storeSubjects;
const { putAndDelete, transactions, etcd, etcdAlone, etcd3 } = storeSubjects;
const { statements, quickStatements, postgres, postgresAlone } = storeSubjects;
const { mysql2Statements, mariadbStatements, mysql2, mariadb, mysqlAlone } = storeSubjects;
const { updates, mongodb, mongodbAlone } = storeSubjects;

/**
 * @param {string} name
 * @param {string} server Its name, or `sqlite`.
 * @param {readonly import('./index.mjs').Subject[]} subjects
 * @param {Partial<Pick<import('./index.mjs').ClientsWorkload, 'clients' | 'keys' | 'again' | 'limit' | 'floors'>>} [options]
 * @returns {import('./index.mjs').ClientsWorkload}
 */
const workload = (
  name,
  server,
  subjects,
  { clients = 1, keys = 1, again = false, limit = 1, floors = [] } = {},
) => ({
  name,
  group: 'stores',
  runner: 'clients',
  server,
  stripes: 1,
  needs: [],
  floors,
  subjects,
  clients,
  keys,
  again,
  limit,
});

const contenders = [redis, redlock, redlockShort];
const permitted = [redisPermits, semaphore, semaphoreShort];

export const stores = [
  workload('Redis, a hot key', 'redis', [redis, redisAlone, redlock], { floors: [roundTrips] }),
  workload('Redis, 10,000 keys', 'redis', [redis, redisAlone, redlock], {
    keys: 10_000,
    floors: [roundTrips],
  }),
  workload('Redis, 2 clients want a key at once', 'redis', contenders, { clients: 2 }),
  workload('Redis, 8 clients want a key at once', 'redis', contenders, { clients: 8 }),
  workload('Redis, 8 clients want a key again and again', 'redis', contenders, { clients: 8, again: true }),
  workload('Redis, a free permit', 'redis', [redisPermits, semaphore], {
    limit: PERMITS,
    floors: [roundTrips],
  }),
  workload('Redis, 8 clients want 3 permits at once', 'redis', permitted, { clients: 8, limit: PERMITS }),
  workload('Redis, 8 clients want 3 permits again and again', 'redis', permitted, {
    clients: 8,
    limit: PERMITS,
    again: true,
  }),
  workload('MongoDB, a hot key', 'mongodb', [mongodb, mongodbAlone], { floors: [updates] }),
  workload('MongoDB, 8 clients want a key at once', 'mongodb', [mongodb], { clients: 8 }),
  workload('SQLite, a hot key', 'sqlite', [sqlite, sqliteAlone]),
  workload('etcd, a hot key', 'etcd', [etcd, etcdAlone, etcd3], { floors: [putAndDelete, transactions] }),
  workload('etcd, 2 clients want a key at once', 'etcd', [etcd], { clients: 2 }),
  workload('etcd, 8 clients want a key at once', 'etcd', [etcd], { clients: 8 }),
  workload('PostgreSQL, a hot key', 'postgres', [postgres, postgresAlone], {
    floors: [statements, quickStatements],
  }),
  workload('PostgreSQL, 10,000 keys', 'postgres', [postgres, postgresAlone], {
    keys: 10_000,
    floors: [statements, quickStatements],
  }),
  workload('PostgreSQL, 8 clients want a key at once', 'postgres', [postgres], { clients: 8 }),
  workload('MySQL, a hot key', 'mysql', [mysql2, mariadb, mysqlAlone], {
    floors: [mysql2Statements, mariadbStatements],
  }),
  workload('MySQL, 8 clients want a key at once', 'mysql', [mysql2], { clients: 8 }),
];
