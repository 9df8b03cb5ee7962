export { cacheLeaseStore, type CacheLeaseStoreOptions } from './stores/cache/store.js';
export type { CacheClient, CacheEntry } from './stores/cache/client.js';
