/**
 * Leases in PostgreSQL, for many machines.
 *
 * @module stripelock/postgres
 */

export { postgresLeaseStore } from './stores/postgres/store.js';
export type {
  PostgresClientOptions,
  PostgresLeaseStoreOptions,
  PostgresPoolOptions,
} from './stores/postgres/options.js';
export { reopenPostgresLeaseStore, type ReopenedPostgresOptions } from './stores/postgres/reopen.js';
export type { PostgresClient } from './stores/postgres/client.js';
