import type { Names } from '../../common/checks.js';
import type { HostUrl } from '../../common/types.js';
import type {
  ClosableLeaseStore,
  ExactLeaseStore,
  InfoLeaseStore,
  LeaseStore,
  ReopenableLeaseStore,
  WakingLeaseStore,
} from '../../lease/contract/lease-store.js';
import { clientFrom, reopenedBy } from '../reopen.js';
import { checkTerms, ServerStore } from '../server-store.js';
import { MongodbBackend } from './backend.js';
import { collectionOf, type MongodbCollection, type MongodbDatabase } from './collection.js';

const REOPEN = { module: 'stripelock/mongodb', name: 'reopenMongodbLeaseStore' };

interface CommonOptions {
  /** Milliseconds after which an operation without an answer fails. Default 1000. */
  timeout?: number;
  /** How much faster the primary's clock may run than a holder's, as a fraction. Default 0.001. */
  drift?: number;
  /**
   * The URL or path of a module whose default export is a function that makes another such collection or database, or a
   * promise of one, on a client of its own. Only renewal in the background needs it: the thread that renews calls it.
   */
  clientModule?: string | HostUrl;
}

/** For `mongodbLeaseStore` of `stripelock/mongodb`, in a collection of the caller's. */
export interface MongodbCollectionOptions extends CommonOptions {
  /** A collection of the driver `mongodb`, 6 or 7, for leases alone. Its client stays the caller's. */
  collection: MongodbCollection;
  /** Only without a collection. */
  db?: undefined;
}

/** For `mongodbLeaseStore` of `stripelock/mongodb`, in a database of the caller's: its collection "stripelock_leases". */
export interface MongodbDatabaseOptions extends CommonOptions {
  /** A database of the driver `mongodb`, 6 or 7. Its client stays the caller's. */
  db: MongodbDatabase;
  /** Only without a database. */
  collection?: undefined;
}

/** A collection, or a database. */
export type MongodbLeaseStoreOptions = MongodbCollectionOptions | MongodbDatabaseOptions;

const NAMES: Names<MongodbLeaseStoreOptions> = {
  collection: true,
  db: true,
  clientModule: true,
  timeout: true,
  drift: true,
};

/**
 * Leases in MongoDB, 4.4 or later, for the processes of many machines, over a collection or a database of the caller's, by
 * the driver `mongodb` 6 or 7. Each operation is one command to the primary, which judges expiry by its clock; writes count
 * when a majority of the replica set has them. An operation rejects with LeaseStoreError if the server fails, or does not
 * answer within `timeout`. A grant that is answered later is given back. It rejects with a LockError, code
 * ERR_MONGODB_UNSUPPORTED, if the server does not understand what the store asks, or the collection has a collation.
 *
 * The first operation makes the collection, and its TTL index, if they are missing. On a replica set a release wakes
 * acquisitions that wait in managers, through a change stream that is open while anybody waits. `close` ends that.
 *
 * No operation takes part in a transaction of the caller's: the store passes no session.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options.
 */
export function mongodbLeaseStore(
  options: MongodbLeaseStoreOptions,
): InfoLeaseStore & WakingLeaseStore & ReopenableLeaseStore & ExactLeaseStore & ClosableLeaseStore {
  const terms = checkTerms(options, NAMES);
  const { clientModule, timeout, drift } = options;
  const backend = new MongodbBackend(collectionOf(options), terms.timeout);
  return new ServerStore(backend, terms, reopenedBy(REOPEN, clientModule, { timeout, drift }));
}

/** What another thread needs to make a client, and a store on it. */
interface ReopenedOptions extends Pick<MongodbLeaseStoreOptions, 'timeout' | 'drift'> {
  /** The module whose default export makes the collection or the database. */
  clientModule: string;
}

/**
 * Makes a collection or a database by a `clientModule` of {@link MongodbLeaseStoreOptions}, and a store in it. The thread
 * that renews leases in the background calls it.
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
