/**
 * Leases in a SQLite file, for the processes of a machine.
 *
 * @module stripelock/sqlite
 */

export {
  sqliteLeaseStore,
  type SqliteDatabaseOptions,
  type SqliteLeaseStoreOptions,
  type SqlitePathOptions,
} from './stores/sqlite/store.js';
export type { SqliteDatabase } from './stores/sqlite/database.js';
