import { invalidArgType } from '../../common/errors.js';
import { checkKey, type FencingToken, type LeaseStore } from './lease-store.js';

/**
 * A store that can acquire, renew and release several keys in one step, which saves round trips. For any
 * other store, a manager sends one request per key.
 *
 * Each list has at least one key, and contains no key twice. Bad arguments are refused as by the other
 * operations.
 */
export interface SeveralKeysLeaseStore extends LeaseStore {
  /**
   * Grants all keys to the owner for `ttl` milliseconds if each key is free, expired, or held by this same
   * owner. The result is the list of the new tokens, in the order of the keys. If another owner holds a key,
   * nothing changes, and the result is the index of the first such key in the list. The operation is atomic.
   */
  tryAcquireAll(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<readonly FencingToken[] | number>;
  /**
   * Renews each key, as `renew` does. The results are in the order of the keys. A key that the owner does not
   * hold does not affect the others.
   */
  renewAll(keys: readonly string[], owner: string, ttl: number, info?: string): Promise<readonly boolean[]>;
  /**
   * Releases each key, as `release` does. The results are in the order of the keys. `tokens`: the tokens of
   * the grants, in the same order. Passed only if the store is an {@link ExactLeaseStore}.
   */
  releaseAll(
    keys: readonly string[],
    owner: string,
    tokens?: readonly FencingToken[],
  ): Promise<readonly boolean[]>;
  /**
   * Whether all of these keys can be handled in one step. In a cluster, keys may be on different machines. If
   * a store does not have this method, it handles any keys in one step.
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
 * A store that can renew and release keys of several owners in one request. The result has one answer per
 * key. An answer is undefined if the request could not decide this key, for example because another client
 * has locked its row. The caller then sends a separate request for this key. The promise rejects only if no
 * key could be decided, as in an outage. In that case the caller sends no separate requests. A list contains
 * no key twice.
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

/** Checks a list of keys for a store's method. */
export function checkKeyList(keys: unknown): readonly string[] {
  if (!Array.isArray(keys)) throw invalidArgType('keys', 'a list of strings', keys);
  return (keys as readonly unknown[]).map(checkKey);
}

/**
 * Checks the keys of a lease. Returns each key once, sorted by UTF-16 code units. All threads and processes
 * take keys in this order, so they cannot wait for each other in a cycle.
 */
export function checkKeys(keys: string | readonly string[]): readonly string[] {
  return Array.isArray(keys) ? [...new Set(checkKeyList(keys))].sort() : [checkKey(keys)];
}
