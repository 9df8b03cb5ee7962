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
import type { SeveralKeysLeaseStore } from '../../lease/contract/several-keys.js';
import type { SharedLeaseStore } from '../../lease/contract/shared.js';
import { clientFrom, reopenedBy } from '../reopen.js';
import { checkTerms, SeveralServerStore } from '../server-store.js';
import { checkTable, clientOf } from '../tables.js';
import { MysqlBackend } from './backend.js';
import { connectionOf } from './clients.js';

const REOPEN = { module: 'stripelock/mysql', name: 'reopenMysqlLeaseStore' };

/**
 * The caller's client: a pool or a connection. The client may be from `mysql2`, with callbacks or promises,
 * or from `mariadb`, with promises.
 */
export type MysqlClient = object;

interface CommonOptions {
  /**
   * The table's name, optionally with a database: `locks.leases`. The store creates this table, and a second
   * table with `_floor` at the end of its name, if they do not exist. Default "stripelock_leases".
   */
  table?: string;
  /** Milliseconds after which an operation without an answer fails. Default 1000. */
  timeout?: number;
  /** How much faster the server's clock may run than a holder's, as a fraction. Default 0.001. */
  drift?: number;
  /**
   * The URL or path of a module whose default export is a function. The function returns another client or
   * pool of the same kind, or a promise for it. Only background renewal needs this option: the renewing
   * thread calls the function.
   */
  clientModule?: string | HostUrl;
}

/** Options of `mysqlLeaseStore` (`stripelock/mysql`) with a pool. */
export interface MysqlPoolOptions extends CommonOptions {
  /** A pool of `mysql2` or `mariadb`. The store never closes the pool. */
  pool: MysqlClient;
  /** Not allowed together with `pool`. */
  client?: undefined;
}

/** Options of `mysqlLeaseStore` (`stripelock/mysql`) with a connection. */
export interface MysqlClientOptions extends CommonOptions {
  /**
   * A connection of `mysql2` or `mariadb` that is used only for leases. A pool is accepted, too. The store
   * never closes the client.
   */
  client: MysqlClient;
  /** Not allowed together with `client`. */
  pool?: undefined;
}

/** Options with either a pool or a connection. */
export type MysqlLeaseStoreOptions = MysqlPoolOptions | MysqlClientOptions;

const NAMES: Names<MysqlLeaseStoreOptions> = {
  pool: true,
  client: true,
  clientModule: true,
  table: true,
  timeout: true,
  drift: true,
};

/**
 * Leases in MySQL or MariaDB, for processes on many machines. Each statement is a separate transaction. The
 * server's clock decides when a lease expires. An operation rejects with LeaseStoreError if the server fails
 * or does not answer within `timeout`. A grant that arrives after `timeout` is given back. Inside a
 * transaction of the caller, operations reject with a LockError (ERR_LEASE_IN_TRANSACTION).
 *
 * While managers wait, the store polls the awaited keys every 25 to 50 milliseconds, with one statement for
 * all of them.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options.
 */
export function mysqlLeaseStore(
  options: MysqlLeaseStoreOptions,
): WakingLeaseStore &
  SeveralKeysLeaseStore &
  InfoLeaseStore &
  ReopenableLeaseStore &
  AbandonmentLeaseStore &
  ListingLeaseStore &
  SharedLeaseStore &
  ClosableLeaseStore {
  const terms = checkTerms(options, NAMES);
  const { clientModule, table, timeout, drift } = options;
  const name = checkTable(table);
  const source = reopenedBy(REOPEN, clientModule, { table, timeout, drift });
  const backend = new MysqlBackend(connectionOf(...clientOf(options)), name, terms.timeout);
  return new SeveralServerStore(backend, terms, source);
}

/** The options that another thread needs to create a client and a store on it. */
interface ReopenedOptions extends Pick<MysqlClientOptions, 'table' | 'timeout' | 'drift'> {
  /** The module whose default export returns the client or the pool. */
  clientModule: string;
}

/**
 * Creates a client from a `clientModule` (see {@link MysqlClientOptions}), and a store on that client. Called
 * by the thread that renews leases in the background.
 *
 * @internal
 */
export async function reopenMysqlLeaseStore({ clientModule, ...rest }: ReopenedOptions): Promise<LeaseStore> {
  return mysqlLeaseStore({ ...rest, client: await clientFrom<MysqlClient>(clientModule) });
}
