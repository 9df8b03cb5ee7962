/**
 * Leases in MySQL or MariaDB, for many machines.
 *
 * @module stripelock/mysql
 */

export {
  mysqlLeaseStore,
  type MysqlClient,
  type MysqlClientOptions,
  type MysqlLeaseStoreOptions,
  type MysqlPoolOptions,
} from './stores/mysql/store.js';
/** @internal */
export { reopenMysqlLeaseStore } from './stores/mysql/store.js';
