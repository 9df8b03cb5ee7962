import type { LeaseStore } from '../../lease/contract/lease-store.js';
import type { PostgresClient } from './client.js';
import type { PostgresClientOptions } from './options.js';
import { postgresLeaseStore } from './store.js';

/** What another thread needs to make a client, and a store on it. */
export interface ReopenedPostgresOptions extends Pick<PostgresClientOptions, 'table' | 'timeout' | 'drift'> {
  /** The module whose default export makes the client or the pool. */
  clientModule: string;
}

/**
 * Makes a client by a `clientModule` of {@link PostgresClientOptions}, and a store on it. The thread that renews leases in
 * the background calls it.
 */
export async function reopenPostgresLeaseStore({
  clientModule,
  ...rest
}: ReopenedPostgresOptions): Promise<LeaseStore> {
  const { default: make } = (await import(clientModule)) as {
    default?: () => PostgresClient | Promise<PostgresClient>;
  };
  if (typeof make !== 'function') {
    throw new TypeError(`${clientModule} must have a default export that is a function and makes a client`);
  }
  return postgresLeaseStore({ ...rest, client: await make() });
}
