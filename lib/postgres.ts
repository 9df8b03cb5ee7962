/**
 * Leases in PostgreSQL, for many machines.
 *
 * @module stripelock/postgres
 */

export {
  postgresLeaseStore,
  type PostgresClient,
  type PostgresClientOptions,
  type PostgresLeaseStoreOptions,
  type PostgresPoolOptions,
  type PostgresQueryClient,
} from './stores/postgres/store.js';
/** @internal */
export { reopenPostgresLeaseStore } from './stores/postgres/store.js';
