import type { Names } from '../../common/checks.js';
import { invalidArgType } from '../../common/errors.js';
import type { HostUrl } from '../../common/types.js';
import {
  type ClosableLeaseStore,
  type AbandonmentLeaseStore,
  type InfoLeaseStore,
  type LeaseStore,
  type ReopenableLeaseStore,
  type WakingLeaseStore,
} from '../../lease/contract/lease-store.js';
import type { ListingLeaseStore } from '../../lease/contract/listing.js';
import type { SeveralKeysLeaseStore } from '../../lease/contract/several-keys.js';
import type { SharedLeaseStore } from '../../lease/contract/shared.js';
import { clientFrom, reopenedBy } from '../reopen.js';
import { checkTerms, SeveralServerStore } from '../server-store.js';
import { checkTable, clientOf } from '../tables.js';
import { PostgresBackend } from './backend.js';
import type { Connection } from './connection.js';
import {
  PgLiteConnection,
  PostgresJsConnection,
  QueryConnection,
  type PgLite,
  type PostgresJs,
} from './other-clients.js';
import { ClientConnection, PoolConnection, type PgClient, type PgPool } from './pg.js';

const REOPEN = { module: 'stripelock/postgres', name: 'reopenPostgresLeaseStore' };

/** An object through which the store uses a client of any library, such as an ORM. */
export interface PostgresQueryClient {
  /**
   * Runs one statement with the parameters `$1`, `$2` and so on. Each value is a string or null. Resolves
   * with the array of rows, or with an object whose property `rows` is that array. Each row is an object with
   * one property for each column. The values of a row must be the strings or nulls of the database,
   * unchanged.
   */
  query(text: string, values: (string | null)[]): PromiseLike<unknown>;
}

/**
 * The caller's client. It may be a `Pool` or a connected `Client` of `pg`, a `PGlite` or a
 * {@link PostgresQueryClient}. It may also be the object that `postgres()` of the package `postgres` returns,
 * or a `new SQL()` in Bun.
 */
export type PostgresClient = object | PostgresQueryClient;

interface CommonOptions {
  /**
   * The table's name, optionally with a schema: `locks.leases`. The store creates this table, and a second
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

/** Options of `postgresLeaseStore` (`stripelock/postgres`) with a pool. */
export interface PostgresPoolOptions extends CommonOptions {
  /**
   * One of these: a `Pool` of `pg` or of Neon's driver; the object that `postgres()` of the package
   * `postgres` returns; or a `new SQL()` in Bun. The store never closes the pool.
   */
  pool: PostgresClient;
  /** Not allowed together with `pool`. */
  client?: undefined;
}

/** Options of `postgresLeaseStore` (`stripelock/postgres`) with a client. */
export interface PostgresClientOptions extends CommonOptions {
  /**
   * A connected `Client` of `pg` that is used for nothing else, a `PGlite`, or any object with
   * `query(text, values)`. A pool is accepted, too. The store never closes the client.
   */
  client: PostgresClient;
  /** Not allowed together with `client`. */
  pool?: undefined;
}

/** Options with either a pool or a client. */
export type PostgresLeaseStoreOptions = PostgresPoolOptions | PostgresClientOptions;

const NAMES: Names<PostgresLeaseStoreOptions> = {
  pool: true,
  client: true,
  clientModule: true,
  table: true,
  timeout: true,
  drift: true,
};

/**
 * Leases in PostgreSQL, for processes on many machines. Each operation is one statement in an implicit
 * transaction. The server's clock decides when a lease expires. An operation rejects with LeaseStoreError if
 * the server fails or does not answer within `timeout`. A grant that arrives after `timeout` is given back.
 * Inside a transaction of the caller, operations reject with a LockError (ERR_LEASE_IN_TRANSACTION).
 *
 * A release wakes waiting acquisitions through a notification. While managers wait, the store keeps a session
 * that listens for notifications. With a pool, this session is an additional connection. `close` only stops
 * listening. If the client has only `query(text, values)`, the store polls instead: every 25 to 50
 * milliseconds, one statement reads all awaited keys.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options.
 */
export function postgresLeaseStore(
  options: PostgresLeaseStoreOptions,
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
  const backend = new PostgresBackend(connectionOf(...clientOf(options)), checkTable(table), terms.timeout);
  const source = reopenedBy(REOPEN, clientModule, { table, timeout, drift });
  return new SeveralServerStore(backend, terms, source);
}

/** The options that another thread needs to create a client and a store on it. */
interface ReopenedOptions extends Pick<PostgresClientOptions, 'table' | 'timeout' | 'drift'> {
  /** The module whose default export returns the client or the pool. */
  clientModule: string;
}

/**
 * Creates a client from a `clientModule` (see {@link PostgresClientOptions}), and a store on that client.
 * Called by the thread that renews leases in the background.
 *
 * @internal
 */
export async function reopenPostgresLeaseStore({
  clientModule,
  ...rest
}: ReopenedOptions): Promise<LeaseStore> {
  return postgresLeaseStore({ ...rest, client: await clientFrom<PostgresClient>(clientModule) });
}

type Shape = Readonly<Record<string, unknown>>;

/** Returns the connection for the caller's client. `name`: the option's name, for error messages. */
function connectionOf(client: unknown, name: string): Connection {
  const isShape = (typeof client === 'object' && client !== null) || typeof client === 'function';
  const shape = (isShape ? client : {}) as Shape;
  const has = (...methods: string[]): boolean =>
    methods.every((method) => typeof shape[method] === 'function');
  if (has('unsafe') && (has('listen') || 'savepoint' in shape)) {
    return new PostgresJsConnection(client as PostgresJs);
  }
  if (has('query', 'exec', 'listen')) return new PgLiteConnection(client as PgLite);
  if (has('query', 'connect', 'on') && 'totalCount' in shape) return new PoolConnection(client as PgPool);
  if (has('query', 'connect', 'on')) return new ClientConnection(client as PgClient);
  if (has('query')) return new QueryConnection(client as PostgresQueryClient);
  throw invalidArgType(
    name,
    'a client of pg, postgres or PGlite, or an object with query(text, values)',
    client,
  );
}
