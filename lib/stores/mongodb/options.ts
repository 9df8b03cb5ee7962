import type { HostUrl } from '../../common/types.js';
import type { LeaseStoreSource } from '../../lease/contract/lease-store.js';
import { moduleUrl } from '../reopen.js';
import type { MongodbCollection, MongodbDatabase } from './client.js';

interface CommonOptions {
  /** Milliseconds after which an operation without an answer fails. Default 1000. */
  timeout?: number;
  /** By how much the primary's clock may run faster than a holder's, as a fraction. Default 0.001. */
  drift?: number;
  /**
   * The URL or path of a module whose default export is a function that makes another such collection or database, or a
   * promise of one, on a client of its own. Only renewal in the background needs it: the thread that renews calls it.
   */
  clientModule?: string | HostUrl;
}

/** For a store in a collection of the caller's. */
export interface MongodbCollectionOptions extends CommonOptions {
  /** A collection of the driver `mongodb`, 6 or 7, for leases alone. Its client stays the caller's. */
  collection: MongodbCollection;
  /** Only without a collection. */
  db?: undefined;
}

/** For a store in a database of the caller's, in its collection "stripelock_leases". */
export interface MongodbDatabaseOptions extends CommonOptions {
  /** A database of the driver `mongodb`, 6 or 7. Its client stays the caller's. */
  db: MongodbDatabase;
  /** Only without a database. */
  collection?: undefined;
}

/** A collection, or a database. */
export type MongodbLeaseStoreOptions = MongodbCollectionOptions | MongodbDatabaseOptions;

/** How another thread makes such a store, on a client of its own. */
export function sourceFrom(options: MongodbLeaseStoreOptions): LeaseStoreSource | undefined {
  if (options.clientModule === undefined) return undefined;
  const { timeout, drift } = options;
  const clientModule = moduleUrl(options.clientModule);
  return {
    module: 'stripelock/mongodb',
    name: 'reopenMongodbLeaseStore',
    options: { clientModule, timeout, drift },
  };
}
