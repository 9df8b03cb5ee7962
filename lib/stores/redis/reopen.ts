import type { LeaseStore } from '../../lease/contract/lease-store.js';
import type { RedisClient } from './client.js';
import type { RedisLeaseStoreOptions } from './options.js';
import { redisLeaseStore } from './store.js';

/** What another thread needs to make a client, and a store on it. */
export interface ReopenedRedisOptions extends Omit<RedisLeaseStoreOptions, 'client' | 'clientModule'> {
  /** The module whose default export makes the client. */
  clientModule: string;
}

/**
 * Makes a client by a `clientModule` of {@link RedisLeaseStoreOptions}, and a store on it. The thread that renews leases in
 * the background calls it.
 */
export async function reopenRedisLeaseStore({
  clientModule,
  ...rest
}: ReopenedRedisOptions): Promise<LeaseStore> {
  const { default: make } = (await import(clientModule)) as {
    default?: () => RedisClient | Promise<RedisClient>;
  };
  if (typeof make !== 'function') {
    throw new TypeError(`${clientModule} must have a default export that is a function and makes a client`);
  }
  return redisLeaseStore({ ...rest, client: await make() });
}
