/**
 * Leases in Redis or Valkey, for many machines.
 *
 * @module stripelock/redis
 */

export { redisLeaseStore, type RedisLeaseStoreOptions, type RedisUrlOptions } from './stores/redis/store.js';
export type { RedisClient } from './stores/redis/client.js';
/** @internal */
export { reopenRedisLeaseStore } from './stores/redis/store.js';
