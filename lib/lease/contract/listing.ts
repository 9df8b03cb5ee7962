import { checkCount, checkOptionsObject, checkString, type Names } from '../../common/checks.js';
import { LockError } from '../../common/errors.js';
import type { FencingToken, InfoLeaseState, LeaseStore } from './lease-store.js';

/** Leases. */
export const DEFAULT_LISTED = 1000;
/** Leases: a list is one array in memory. */
export const MAX_LISTED = 10_000;

/** For `list` of a store. */
export interface ListLeasesOptions {
  /** Lists only keys that start with this text. Every character stands for itself. Default: all keys. */
  prefix?: string;
  /** The maximum number of leases, 1 … 10_000. Default 1000. */
  limit?: number;
}

/** A lease that is held, with its key. */
export interface ListedLease {
  /** The key in the store. Of a key with permits, each held slot is listed: `key`, `key#slot1` and so on. */
  readonly key: string;
  /** The owner that was passed to `tryAcquire`. */
  readonly owner: string;
  /** The token of the grant. */
  readonly token: FencingToken;
  /** Milliseconds until it expires, by the store's clock. */
  readonly remaining: number;
  /** The holder's text about itself; absent without one. */
  readonly info?: string;
}

/** A store that can enumerate its leases. */
export interface ListingLeaseStore extends LeaseStore {
  /**
   * The leases that are held by the store's clock, in the order of their keys: by Unicode code points. Keys that contain a NUL
   * or half of a surrogate pair may come last. If more leases than `limit` are held, the first ones in that order are listed.
   *
   * A long list takes several requests, between which others acquire and release. So a lease that is held during the whole call
   * is listed, and any other may be.
   */
  list(options?: ListLeasesOptions): Promise<readonly ListedLease[]>;
}

const NAMES: Names<ListLeasesOptions> = { prefix: true, limit: true };

/** Checks the options of `list`, and fills in defaults. */
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

/** A lease in a list. An empty `info` is left out. */
export function listedLease(key: string, { info, ...state }: InfoLeaseState): ListedLease {
  return info === undefined || info === '' ? { key, ...state } : { key, ...state, info };
}

/** The error for a store that cannot enumerate its leases for this reason. */
export function cannotList(why: string): LockError {
  return new LockError('ERR_LEASE_LIST', `the leases cannot be listed: ${why}`);
}
