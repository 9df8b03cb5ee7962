/**
 * Leases in Redis or Valkey, for many machines.
 *
 * @module stripelock/redis
 */

export {
  redisLeaseStore,
  reopenRedisLeaseStore,
  type RedisLeaseStoreOptions,
  type RedisUrlOptions,
  type ReopenedRedisOptions,
} from './stores/redis/store.js';
export type { RedisClient } from './stores/redis/client.js';
