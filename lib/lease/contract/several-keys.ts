import { invalidArgType } from '../../common/errors.js';
import { checkKey, type FencingToken, type GrantDetails, type LeaseStore } from './lease-store.js';

/**
 * A store that can acquire, renew and release several keys in one step, which saves round trips. For any
 * other store, a manager sends one request per key.
 *
 * Each list has at least one key, and contains no key twice. The operations reject bad arguments in the same
 * way as the other operations of the store.
 */
export interface SeveralKeysLeaseStore extends LeaseStore {
  /**
   * Atomically grants all keys to the owner for `ttl` milliseconds, if each key is free, has an expired
   * lease, or is held by this same owner. Resolves to the list of the new tokens, in the order of the keys.
   * If another owner holds a key, nothing changes, and the result is the index of the first such key in the
   * list. `details`: see {@link AbandonmentLeaseStore}.
   */
  tryAcquireAll(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info?: string,
    details?: GrantDetails,
  ): Promise<readonly FencingToken[] | number>;
  /**
   * Renews each key, as `renew` does. The results are in the order of the keys. If the owner does not hold
   * one of the keys, the others are still renewed.
   */
  renewAll(keys: readonly string[], owner: string, ttl: number, info?: string): Promise<readonly boolean[]>;
  /**
   * Releases each key, as `release` does. The results are in the order of the keys. `tokens`: the tokens of
   * the grants, in the same order. Managers pass them only if the store is an {@link ExactLeaseStore}.
   */
  releaseAll(
    keys: readonly string[],
    owner: string,
    tokens?: readonly FencingToken[],
  ): Promise<readonly boolean[]>;
  /**
   * Whether all of these keys can be handled in one step. In a cluster, for example, keys can be on different
   * machines. A store without this method can handle any keys in one step.
   */
  inOneStep?(keys: readonly string[]): boolean;
}

/** The arguments of `LeaseStore.renew` for one lease. */
export interface Renewal {
  readonly key: string;
  readonly owner: string;
  readonly ttl: number;
  readonly info: string | undefined;
}

/** The arguments of `ExactLeaseStore.release` for one lease. */
export interface KeyRelease {
  readonly key: string;
  readonly owner: string;
  readonly token: FencingToken | undefined;
}

/**
 * A store that can renew or release leases of several owners in one request. The result has one answer per
 * lease. An answer is undefined if the store could not process this lease, for example because another client
 * has locked its row. The caller then sends a separate request for this lease. The promise rejects only if
 * the store could process none of the leases, as in an outage. In that case the caller sends no separate
 * requests. No list contains a key twice.
 */
export interface BatchingLeaseStore {
  renewEach(renewals: readonly Renewal[]): Promise<readonly (boolean | undefined)[]>;
  releaseEach(releases: readonly KeyRelease[]): Promise<readonly (boolean | undefined)[]>;
}

/** Whether the store is a {@link BatchingLeaseStore}. */
export function isBatching<S extends LeaseStore>(store: S): store is S & BatchingLeaseStore {
  const { renewEach, releaseEach } = store as Partial<BatchingLeaseStore>;
  return typeof renewEach === 'function' && typeof releaseEach === 'function';
}

const OPERATIONS = ['tryAcquireAll', 'renewAll', 'releaseAll'] as const;

/** Whether the store can acquire, renew and release these keys in one step. False for a single key. */
export function canDoTogether(store: LeaseStore, keys: readonly string[]): store is SeveralKeysLeaseStore {
  const candidate = store as Partial<SeveralKeysLeaseStore>;
  return (
    keys.length > 1 &&
    OPERATIONS.every((operation) => typeof candidate[operation] === 'function') &&
    (typeof candidate.inOneStep !== 'function' || candidate.inOneStep(keys))
  );
}

/** Checks a list of keys that a caller has passed to a method of a store. */
export function checkKeyList(keys: unknown): readonly string[] {
  if (!Array.isArray(keys)) throw invalidArgType('keys', 'a list of strings', keys);
  return (keys as readonly unknown[]).map(checkKey);
}

/**
 * Checks the keys of a lease. Returns each key once, sorted by UTF-16 code units. All threads and processes
 * acquire keys in this order, so they cannot wait for each other in a cycle.
 */
export function checkKeys(keys: string | readonly string[]): readonly string[] {
  return Array.isArray(keys) ? [...new Set(checkKeyList(keys))].sort() : [checkKey(keys)];
}
