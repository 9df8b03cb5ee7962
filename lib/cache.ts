/**
 * Leases in any cache that has an atomic `add` and `cas`, such as Memcached.
 *
 * @module stripelock/cache
 */

export { cacheLeaseStore, type CacheLeaseStoreOptions } from './stores/cache/store.js';
export type { CacheClient, CacheEntry } from './stores/cache/client.js';
