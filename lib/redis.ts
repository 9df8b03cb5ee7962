/**
 * Leases in Redis or Valkey, for many machines.
 *
 * @module stripelock/redis
 */

export { redisLeaseStore } from './stores/redis/store.js';
export type { RedisLeaseStoreOptions, RedisUrlOptions } from './stores/redis/options.js';
export { reopenRedisLeaseStore, type ReopenedRedisOptions } from './stores/redis/reopen.js';
export type { RedisClient } from './stores/redis/client.js';
