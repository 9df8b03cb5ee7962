import type {
  ClosableLeaseStore,
  ExactLeaseStore,
  InfoLeaseStore,
  ReopenableLeaseStore,
  WakingLeaseStore,
} from '../../lease/contract/lease-store.js';
import type { SeveralKeysLeaseStore } from '../../lease/contract/several-keys.js';
import { SeveralServerStore } from '../server-store.js';
import { EtcdBackend } from './backend.js';
import { resolveOptions, type EtcdLeaseStoreOptions } from './options.js';

/**
 * Leases in etcd 3.4 or later, for the processes of many machines. The servers agree on each grant before it is given, so
 * it outlasts the loss of any minority of them. No client library is needed: the store speaks to the JSON gateway that
 * every etcd has.
 *
 * A lease lasts for whole seconds there, at least as many as the servers' shortest lease has (2 with default settings), so
 * a lease that is not released ends late, never early. An operation rejects with LeaseStoreError if no server can answer
 * within `timeout`. A grant that comes later is given back. `close` ends all connections.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options.
 */
export function etcdLeaseStore(
  options: EtcdLeaseStoreOptions,
): WakingLeaseStore &
  SeveralKeysLeaseStore &
  InfoLeaseStore &
  ReopenableLeaseStore &
  ExactLeaseStore &
  ClosableLeaseStore {
  const settings = resolveOptions(options);
  return new SeveralServerStore(new EtcdBackend(settings), settings, settings.source);
}
