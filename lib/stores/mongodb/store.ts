import type { Names } from '../../common/checks.js';
import type { HostUrl } from '../../common/types.js';
import type {
  ClosableLeaseStore,
  AbandonmentLeaseStore,
  InfoLeaseStore,
  LeaseStore,
  ReopenableLeaseStore,
  WakingLeaseStore,
} from '../../lease/contract/lease-store.js';
import type { ListingLeaseStore } from '../../lease/contract/listing.js';
import type { SharedLeaseStore } from '../../lease/contract/shared.js';
import { clientFrom, reopenedBy } from '../reopen.js';
import { checkTerms, ListingServerStore } from '../server-store.js';
import { MongodbBackend } from './backend.js';
import { collectionOf, type MongodbCollection, type MongodbDatabase } from './collection.js';

const REOPEN = { module: 'stripelock/mongodb', name: 'reopenMongodbLeaseStore' };

interface CommonOptions {
  /** Milliseconds after which an operation without an answer fails. Default 1000. */
  timeout?: number;
  /** How much faster the primary's clock may run than a holder's, as a fraction. Default 0.001. */
  drift?: number;
  /**
   * The URL or path of a module whose default export is a function. The function returns another collection
   * or database of the same kind on a separate client, or a promise for it. Only background renewal needs
   * this option: the renewing thread calls the function.
   */
  clientModule?: string | HostUrl;
}

/** Options of `mongodbLeaseStore` (`stripelock/mongodb`) with the caller's collection. */
export interface MongodbCollectionOptions extends CommonOptions {
  /**
   * A collection of the driver `mongodb`, 6 or 7, used only for leases. The store never closes its client.
   */
  collection: MongodbCollection;
  /** Not allowed together with `collection`. */
  db?: undefined;
}

/**
 * Options of `mongodbLeaseStore` (`stripelock/mongodb`) with the caller's database. The store uses the
 * collection "stripelock_leases" of that database.
 */
export interface MongodbDatabaseOptions extends CommonOptions {
  /** A database of the driver `mongodb`, 6 or 7. The store never closes its client. */
  db: MongodbDatabase;
  /** Not allowed together with `db`. */
  collection?: undefined;
}

/** Options with either a collection or a database. */
export type MongodbLeaseStoreOptions = MongodbCollectionOptions | MongodbDatabaseOptions;

const NAMES: Names<MongodbLeaseStoreOptions> = {
  collection: true,
  db: true,
  clientModule: true,
  timeout: true,
  drift: true,
};

/**
 * Leases in MongoDB 4.4 or later, for processes on many machines. The caller passes a collection or database
 * of the driver `mongodb` 6 or 7. Each operation is one command to the primary. The primary's clock decides
 * when a lease expires. A majority of the replica set acknowledges each write.
 *
 * An operation rejects with LeaseStoreError if the server fails or does not answer within `timeout`. A grant
 * that arrives after `timeout` is given back. If the server lacks a needed feature, or the collection has a
 * collation, operations reject with a LockError (ERR_MONGODB_UNSUPPORTED).
 *
 * The first operation creates the collection and its TTL index if they do not exist. On a replica set, a
 * release wakes waiting acquisitions through a change stream, which is open while managers wait. `close` ends
 * that stream.
 *
 * The store passes no session, so its operations are never part of a transaction of the caller.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options.
 */
export function mongodbLeaseStore(
  options: MongodbLeaseStoreOptions,
): InfoLeaseStore &
  WakingLeaseStore &
  ReopenableLeaseStore &
  AbandonmentLeaseStore &
  SharedLeaseStore &
  ListingLeaseStore &
  ClosableLeaseStore {
  const terms = checkTerms(options, NAMES);
  const { clientModule, timeout, drift } = options;
  const backend = new MongodbBackend(collectionOf(options), terms.timeout);
  return new ListingServerStore(backend, terms, reopenedBy(REOPEN, clientModule, { timeout, drift }));
}

/** The options that another thread needs to create a client and a store on it. */
interface ReopenedOptions extends Pick<MongodbLeaseStoreOptions, 'timeout' | 'drift'> {
  /** The module whose default export returns the collection or the database. */
  clientModule: string;
}

/**
 * Creates a collection or database from a `clientModule` (see {@link MongodbLeaseStoreOptions}), and a store
 * in it. Called by the thread that renews leases in the background.
 *
 * @internal
 */
export async function reopenMongodbLeaseStore({
  clientModule,
  ...rest
}: ReopenedOptions): Promise<LeaseStore> {
  const made = await clientFrom<MongodbCollection | MongodbDatabase>(
    clientModule,
    'a collection or a database',
  );
  return mongodbLeaseStore('databaseName' in made ? { ...rest, db: made } : { ...rest, collection: made });
}
