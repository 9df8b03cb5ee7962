/**
 * Leases in Redis or Valkey, for many machines.
 *
 * @module stripelock/redis
 */

export { redisLeaseStore, type RedisLeaseStoreOptions, type RedisUrlOptions } from './stores/redis/store.js';
export { reopenRedisLeaseStore, type ReopenedRedisOptions } from './stores/redis/reopen.js';
export type { RedisClient } from './stores/redis/client.js';
