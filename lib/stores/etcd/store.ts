import type {
  ClosableLeaseStore,
  ExactLeaseStore,
  InfoLeaseStore,
  ReopenableLeaseStore,
  WakingLeaseStore,
} from '../../lease/contract/lease-store.js';
import type { ListingLeaseStore } from '../../lease/contract/listing.js';
import type { SeveralKeysLeaseStore } from '../../lease/contract/several-keys.js';
import type { SharedLeaseStore } from '../../lease/contract/shared.js';
import { SeveralServerStore } from '../server-store.js';
import { EtcdBackend } from './backend.js';
import { resolveOptions, type EtcdLeaseStoreOptions } from './options.js';

/**
 * Leases in etcd 3.4 or later, for processes on many machines. A majority of the servers agrees on each
 * grant, so a lease survives the loss of any minority. No client library is needed: the store uses the JSON
 * gateway that every etcd server includes.
 *
 * An etcd lease lasts a whole number of seconds, and at least the servers' minimum TTL (2 seconds with
 * default settings). So a lease that is not released may expire later than its TTL, but never earlier. An
 * operation rejects with LeaseStoreError if no server answers within `timeout`. A grant that arrives after
 * `timeout` is given back. `close` ends all connections.
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
  SharedLeaseStore &
  ListingLeaseStore &
  ClosableLeaseStore {
  const settings = resolveOptions(options);
  return new SeveralServerStore(new EtcdBackend(settings), settings, settings.source);
}
