/**
 * Leases in MongoDB, for many machines.
 *
 * @module stripelock/mongodb
 */

export {
  mongodbLeaseStore,
  type MongodbCollectionOptions,
  type MongodbDatabaseOptions,
  type MongodbLeaseStoreOptions,
} from './stores/mongodb/store.js';
export type { MongodbCollection, MongodbDatabase } from './stores/mongodb/collection.js';
/** @internal */
export { reopenMongodbLeaseStore } from './stores/mongodb/store.js';
