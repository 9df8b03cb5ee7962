/**
 * Leases in PostgreSQL, for many machines.
 *
 * @module stripelock/postgres
 */

export {
  postgresLeaseStore,
  reopenPostgresLeaseStore,
  type PostgresClient,
  type PostgresClientOptions,
  type PostgresLeaseStoreOptions,
  type PostgresPoolOptions,
  type ReopenedPostgresOptions,
} from './stores/postgres/store.js';
