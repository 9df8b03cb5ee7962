/**
 * Leases in any cache that has an atomic `add` and `cas`, such as Memcached.
 *
 * @module stripelock/cache
 */

export {
  cacheLeaseStore,
  type CacheClient,
  type CacheEntry,
  type CacheLeaseStoreOptions,
} from './stores/cache/store.js';
