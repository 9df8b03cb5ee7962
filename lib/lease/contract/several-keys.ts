import { invalidArgType } from '../../common/errors.js';
import { checkKey, type FencingToken, type LeaseStore } from './lease-store.js';

/**
 * A store that can do something with several keys in one step, which saves round trips. A manager asks any other store
 * for one key after the other.
 *
 * Each list has at least one key, and none twice. Bad input is refused as by the other operations.
 */
export interface SeveralKeysLeaseStore extends LeaseStore {
  /**
   * Atomically: if each of the keys is free, expired, or held by this same owner, hold all of them for ttl milliseconds
   * and return their new tokens, in the order of the keys. Otherwise change nothing, and return the place in the list of
   * the first key that another owner holds.
   */
  tryAcquireAll(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<readonly FencingToken[] | number>;
  /** As `renew` for each key, in the order of the keys. Those that the owner does not hold do not matter to the others. */
  renewAll(keys: readonly string[], owner: string, ttl: number, info?: string): Promise<readonly boolean[]>;
  /**
   * As `release` for each key, in the order of the keys. `tokens`: the tokens of the grants, in the same order, if the store is
   * an {@link ExactLeaseStore}.
   */
  releaseAll(
    keys: readonly string[],
    owner: string,
    tokens?: readonly FencingToken[],
  ): Promise<readonly boolean[]>;
  /** Whether one step can reach all of these keys: in a cluster, keys may be on different machines. Default: always. */
  inOneStep?(keys: readonly string[]): boolean;
}

/** The renewal of one lease, as `LeaseStore.renew` has it. */
export interface Renewal {
  readonly key: string;
  readonly owner: string;
  readonly ttl: number;
  readonly info: string | undefined;
}

/** The release of one lease, as `ExactLeaseStore.release` has it. */
export interface KeyRelease {
  readonly key: string;
  readonly owner: string;
  readonly token: FencingToken | undefined;
}

/**
 * A store that renews and frees keys of several owners in one request. Each answer stands alone: it is undefined for a key
 * that the request could not decide, because another client has its row locked for instance. That key is then asked for
 * alone. The request rejects only if no key can be decided, as in an outage: then no key is asked for alone. No key may occur
 * twice.
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

/** Whether the store can do something with these keys in one step. */
export function canDoTogether(store: LeaseStore, keys: readonly string[]): store is SeveralKeysLeaseStore {
  const candidate = store as Partial<SeveralKeysLeaseStore>;
  return (
    keys.length > 1 &&
    OPERATIONS.every((operation) => typeof candidate[operation] === 'function') &&
    (typeof candidate.inOneStep !== 'function' || candidate.inOneStep(keys))
  );
}

/** A list of keys, each checked, as a store gets it. */
export function checkKeyList(keys: unknown): readonly string[] {
  if (!Array.isArray(keys)) throw invalidArgType('keys', 'a list of strings', keys);
  return (keys as readonly unknown[]).map(checkKey);
}

/**
 * The keys of a lease: each once, by their UTF-16 code units. All threads and processes take keys in this order, so that
 * they cannot wait for each other in a cycle.
 */
export function checkKeys(keys: string | readonly string[]): readonly string[] {
  return Array.isArray(keys) ? [...new Set(checkKeyList(keys))].sort() : [checkKey(keys)];
}
