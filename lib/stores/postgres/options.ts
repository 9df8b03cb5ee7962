import { checkOptionsObject, type Names } from '../../common/checks.js';
import { invalidArgType, outOfRange } from '../../common/errors.js';
import type { HostUrl } from '../../common/types.js';
import { checkNonEmpty, type LeaseStoreSource } from '../../lease/contract/lease-store.js';
import { moduleUrl } from '../module-url.js';
import { connectionOf, type PostgresClient } from './client.js';
import type { Connection } from './connection.js';

const DEFAULT_TABLE = 'stripelock_leases';

interface CommonOptions {
  /**
   * The table, with or without a schema before it: `locks.leases`. It is created if it is missing, and so is another one,
   * whose name ends in `_floor`. Default "stripelock_leases".
   */
  table?: string;
  /** Milliseconds after which an operation without an answer fails. Default 1000. */
  timeout?: number;
  /** By how much the server's clock may run faster than a holder's, as a fraction. Default 0.001. */
  drift?: number;
  /**
   * The URL or path of a module whose default export is a function that makes another such client or pool, or a promise of
   * one. Only renewal in the background needs it: the thread that renews calls it.
   */
  clientModule?: string | HostUrl;
}

/** For a store on a pool. */
export interface PostgresPoolOptions extends CommonOptions {
  /** A `Pool` of `pg`, or what `postgres()` of the package `postgres` returns. It stays the caller's. */
  pool: PostgresClient;
  /** Only without a pool. */
  client?: undefined;
}

/** For a store on a client. */
export interface PostgresClientOptions extends CommonOptions {
  /** A connected `Client` of `pg`, used for nothing else, or a `PGlite`. It stays the caller's. A pool is accepted, too. */
  client: PostgresClient;
  /** Only without a client. */
  pool?: undefined;
}

/** A pool, or a client. */
export type PostgresLeaseStoreOptions = PostgresPoolOptions | PostgresClientOptions;

const NAMES: Names<PostgresLeaseStoreOptions> = {
  pool: true,
  client: true,
  clientModule: true,
  table: true,
  timeout: true,
  drift: true,
};

/** What the options name. */
export function connectTo(options: PostgresLeaseStoreOptions): Connection {
  if ((options as unknown) === undefined) throw invalidArgType('options', 'an object', options);
  checkOptionsObject(options, NAMES);
  const { client, pool } = options as { client?: unknown; pool?: unknown };
  if (pool === undefined) return connectionOf(client, 'options.client');
  if (client === undefined) return connectionOf(pool, 'options.pool');
  throw invalidArgType('options.client', 'left out where options.pool is given', client);
}

/** How another thread makes such a store, on a client of its own. */
export function sourceFrom({
  clientModule,
  table,
  timeout,
  drift,
}: PostgresLeaseStoreOptions): LeaseStoreSource | undefined {
  if (clientModule === undefined) return undefined;
  const options = { clientModule: moduleUrl(clientModule), table, timeout, drift };
  return { module: 'stripelock/postgres', name: 'reopenPostgresLeaseStore', options };
}

/** The name becomes part of SQL, where it cannot be a parameter. PostgreSQL cuts a name after 63 bytes. */
export function checkTable(table: unknown): string {
  if (table === undefined) return DEFAULT_TABLE;
  const name = checkNonEmpty(table, 'options.table');
  if (/^(?:[A-Za-z_]\w{0,62}\.)?[A-Za-z_]\w{0,49}$/.test(name)) return name;
  throw outOfRange(
    'options.table',
    'a name of letters, digits and underscores, at most 50, perhaps after that of a schema and a dot',
    name,
  );
}
