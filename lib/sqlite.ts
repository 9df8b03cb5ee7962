/**
 * Leases in a SQLite file, for processes on one machine.
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
