import { checkCount, checkOptionsObject, checkString, type Names } from '../../common/checks.js';
import { LockError } from '../../common/errors.js';
import type { FencingToken, InfoLeaseState, LeaseStore } from './lease-store.js';

/** The default number of leases in a list. */
export const DEFAULT_LISTED = 1000;
/** The maximum number of leases in a list. A list is a single array, so its length is limited. */
export const MAX_LISTED = 10_000;

/** Options of a store's `list`. */
export interface ListLeasesOptions {
  /** Lists only keys that start with this text. Wildcards are not supported. Default: all keys. */
  prefix?: string;
  /** The maximum number of leases, 1 … 10_000. Default 1000. */
  limit?: number;
}

/** A held lease, with its key. */
export interface ListedLease {
  /** The key in the store. For a key with a limit, each held slot is listed: `key`, `key#slot1` and so on. */
  readonly key: string;
  /** As {@link LeaseState.owner}. */
  readonly owner: string;
  /** The token of the grant. */
  readonly token: FencingToken;
  /** Milliseconds until the lease expires, by the store's clock. */
  readonly remaining: number;
  /** The text that the holder stored with the lease. Absent if there is none. */
  readonly info?: string;
}

/** A store that can list its leases. */
export interface ListingLeaseStore extends LeaseStore {
  /**
   * Lists the leases that have not expired by the store's clock. The list is sorted by key, in the order of
   * Unicode code points. Keys that contain a NUL or half of a surrogate pair may come last. If more than
   * `limit` leases are held, the list contains only the first `limit` of them.
   *
   * A long list takes several requests, and other clients can acquire and release leases between these
   * requests. The list contains each lease that is held during the whole call. A lease that is held for only
   * a part of the call may be missing.
   */
  list(options?: ListLeasesOptions): Promise<readonly ListedLease[]>;
}

const NAMES: Names<ListLeasesOptions> = { prefix: true, limit: true };

/** Checks the options of `list`, and fills in the defaults. */
export function resolveList(options: ListLeasesOptions | undefined): Required<ListLeasesOptions> {
  checkOptionsObject(options, NAMES);
  const { prefix, limit } = options ?? {};
  return {
    prefix: prefix === undefined ? '' : checkString(prefix, 'options.prefix'),
    limit: limit === undefined ? DEFAULT_LISTED : checkCount(limit, 'options.limit', MAX_LISTED),
  };
}

/** Whether the store is a {@link ListingLeaseStore}. */
export function canList(store: LeaseStore): store is ListingLeaseStore {
  return typeof (store as Partial<ListingLeaseStore>).list === 'function';
}

/** Creates the entry of a lease in a list. An empty `info` is left out. */
export function listedLease(key: string, { info, ...state }: InfoLeaseState): ListedLease {
  return info === undefined || info === '' ? { key, ...state } : { key, ...state, info };
}

/** The error of a store that cannot list its leases. `why`: the reason. */
export function cannotList(why: string): LockError {
  return new LockError('ERR_LEASE_LIST', `the leases cannot be listed: ${why}`);
}
