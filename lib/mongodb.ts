/**
 * Leases in MongoDB, for many machines.
 *
 * @module stripelock/mongodb
 */

export {
  mongodbLeaseStore,
  reopenMongodbLeaseStore,
  type MongodbCollectionOptions,
  type MongodbDatabaseOptions,
  type MongodbLeaseStoreOptions,
  type ReopenedMongodbOptions,
} from './stores/mongodb/store.js';
export type { MongodbCollection, MongodbDatabase } from './stores/mongodb/collection.js';
