import type { LeaseStore } from '../../lease/contract/lease-store.js';
import type { MongodbCollection, MongodbDatabase } from './client.js';
import type { MongodbLeaseStoreOptions } from './options.js';
import { mongodbLeaseStore } from './store.js';

/** What another thread needs to make a client, and a store on it. */
export interface ReopenedMongodbOptions extends Pick<MongodbLeaseStoreOptions, 'timeout' | 'drift'> {
  /** The module whose default export makes the collection or the database. */
  clientModule: string;
}

/**
 * Makes a collection or a database by a `clientModule` of {@link MongodbLeaseStoreOptions}, and a store in it. The thread
 * that renews leases in the background calls it.
 */
export async function reopenMongodbLeaseStore({
  clientModule,
  ...rest
}: ReopenedMongodbOptions): Promise<LeaseStore> {
  const { default: make } = (await import(clientModule)) as {
    default?: () => MadeClient | Promise<MadeClient>;
  };
  if (typeof make !== 'function') {
    throw new TypeError(
      `${clientModule} must have a default export that is a function and makes a collection or a database`,
    );
  }
  const made = await make();
  return mongodbLeaseStore('databaseName' in made ? { ...rest, db: made } : { ...rest, collection: made });
}

type MadeClient = MongodbCollection | MongodbDatabase;
