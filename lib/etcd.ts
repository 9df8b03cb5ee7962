/**
 * Leases in etcd, for many machines.
 *
 * @module stripelock/etcd
 */

export { etcdLeaseStore } from './stores/etcd/store.js';
export type { EtcdCredentials, EtcdLeaseStoreOptions, EtcdTls } from './stores/etcd/options.js';
