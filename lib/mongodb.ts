/**
 * Leases in MongoDB, for many machines.
 *
 * @module stripelock/mongodb
 */

export { mongodbLeaseStore } from './stores/mongodb/store.js';
export type {
  MongodbCollectionOptions,
  MongodbDatabaseOptions,
  MongodbLeaseStoreOptions,
} from './stores/mongodb/options.js';
export { reopenMongodbLeaseStore, type ReopenedMongodbOptions } from './stores/mongodb/reopen.js';
export type { MongodbCollection, MongodbDatabase } from './stores/mongodb/client.js';
