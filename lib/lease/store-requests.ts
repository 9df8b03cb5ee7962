import { defer } from '../common/host.js';
import type { LockMode } from '../common/types.js';
import { isPermanent } from './contract/errors.js';
import {
  isExact,
  reportsAbandonment,
  type FencingToken,
  type GrantDetails,
  type InfoLeaseStore,
  type LeaseStore,
} from './contract/lease-store.js';
import type { LeaseTerms } from './contract/options.js';
import {
  canDoTogether,
  isBatching,
  type KeyRelease,
  type Renewal,
  type SeveralKeysLeaseStore,
} from './contract/several-keys.js';
import { READERS, type LeaveDetails, type SharedLeaseStore } from './contract/shared.js';
import { fromAny } from './contract/slots.js';

/**
 * The maximum number of keys in one request. A store may limit the size of a request, as etcd limits a
 * transaction to 128 parts. A request with thousands of keys would also block the event loop.
 */
const MOST_KEYS = 50;
/**
 * The number of keys that are sent in separate requests after a failure, to check whether the store answers.
 * One such key is not enough, because it may be the cause of the failure.
 */
const PROBES = 2;

/** The owner for which an acquisition sends requests to the store, and the state of these requests. */
export interface Requester {
  /** In shared mode: the reader, which is an id that only this requester has. */
  readonly owner: string;
  /** The time when the acquisition began, in milliseconds of real time. */
  readonly since: number;
  /** The keys that the store may have granted to this owner in an answer that was lost. */
  unsure: Set<string> | undefined;
  /**
   * Whether the release of a granted key has failed. The store may still execute that release later, and then
   * free a key that it has granted to the same owner since then. So the next attempt must use another owner.
   */
  isSpent: boolean;
  /** Whether the acquisition has ended, so that the rest of its attempt is not needed. */
  isCancelled: boolean;
}

/** The store's grant of one key. */
export interface KeyGrant {
  readonly token: FencingToken;
  /** See `Lease.abandoned`. */
  readonly abandoned: boolean | undefined;
  /** In shared mode: the group of readers that holds the key. */
  readonly group?: string;
}

/** A renewal or a release that has not been sent yet. */
interface PendingRequest extends Renewal, KeyRelease {
  /** If false, the request is a renewal. A release does not use `ttl` and `info`; a renewal does not use `token`. */
  readonly isRelease: boolean;
  ttl: number;
  readonly answer: Promise<boolean>;
  readonly resolve: (result: boolean | Promise<boolean>) => void;
}

/**
 * Sends all requests that change leases in a store. Callers can pass several keys, whether or not the store
 * can handle them in one request.
 *
 * Renewals and releases that are requested in the same turn of the event loop are sent in one request. Some
 * stores accept leases of several owners in one request; other stores accept only leases with the same owner,
 * TTL and `info` text. If the answer leaves a key undecided, a separate request for this key follows. If the
 * request fails although the store can be reached, a separate request follows for each of its keys. Renewals
 * of the same group of readers become one renewal, with the longest TTL.
 *
 * Before an attempt, the renewals and releases that were requested earlier are sent. If the store can acquire
 * only one key at a time, the keys are requested one after the other. If a later key is refused, the earlier
 * grants are rolled back.
 */
export class StoreRequests {
  readonly #store: InfoLeaseStore;
  readonly #freed: (key: string) => void;
  readonly #hasUniqueOwners: boolean;
  #collected: PendingRequest[] = [];

  /**
   * `freed`: called with the key after each release that freed it. `hasUniqueOwners`: whether each exclusive
   * owner belongs to one acquisition only.
   */
  constructor(store: LeaseStore, freed: (key: string) => void, hasUniqueOwners = false) {
    this.#store = store;
    this.#freed = freed;
    this.#hasUniqueOwners = hasUniqueOwners;
  }

  /** Renews a lease, as the store's `renew` does. */
  renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean> {
    const isSame = (other: PendingRequest): boolean =>
      other.key === key && other.owner === owner && !other.isRelease;
    const isMerged = info === undefined && owner.startsWith(READERS);
    const same = isMerged ? this.#collected.find(isSame) : undefined;
    if (same === undefined)
      return this.#collect({ isRelease: false, key, owner, ttl, info, token: undefined });
    same.ttl = Math.max(same.ttl, ttl);
    return same.answer;
  }

  /**
   * Releases a key. `token`: the token of the grant to end. If it is undefined, because the answer with the
   * token was lost, the owner's current grant ends. If no other acquisition has this owner, its current grant
   * ends in any case: a copy of the acquisition, which the store has executed late, may have replaced the
   * token. Rejects if the store fails, also if only the search for such a grant fails: the key may then be taken.
   */
  async release(key: string, owner: string, token?: FencingToken): Promise<boolean> {
    const send = (named: FencingToken | undefined): Promise<boolean> =>
      this.#collect({ isRelease: true, key, owner, ttl: 0, info: undefined, token: named });
    const freed = await (isExact(this.#store) ? this.#endGrant(key, owner, token, send) : send(undefined));
    if (freed) this.#freed(key);
    return freed;
  }

  /**
   * Frees the key of a grant that its holder did not release; see {@link AbandonmentLeaseStore}. `token`: as
   * for {@link release}.
   */
  async takeBack(
    key: string,
    owner: string,
    token: FencingToken | undefined,
    wasUsed: boolean,
  ): Promise<boolean> {
    const store = this.#store;
    if (!reportsAbandonment(store)) return this.release(key, owner, token);
    const send = (named: FencingToken): Promise<boolean> => store.takeBack(key, owner, named, wasUsed);
    const freed = await this.#endGrant(key, owner, token, send);
    if (freed) this.#freed(key);
    return freed;
  }

  /** Ends a grant, but keeps the key taken for `ttl` milliseconds. `token`: as for {@link release}. */
  async keep(key: string, owner: string, ttl: number, token?: FencingToken): Promise<boolean> {
    const store = this.#store;
    if (!isExact(store)) return this.renew(key, owner, ttl);
    return this.#endGrant(key, owner, token, (named) => store.keep(key, owner, ttl, named));
  }

  /**
   * Removes a reader from the group that holds the key. True if the reader was in the group. `freed`: called
   * after a release that may have freed the key.
   */
  async releaseShared(key: string, reader: string, freed?: () => void): Promise<boolean> {
    const details: LeaveDetails = {};
    const left = await sharing(this.#store).releaseShared(key, reader, details);
    if (left && details.freed !== false) {
      freed?.();
      this.#freed(key);
    }
    return left;
  }

  /**
   * Gives back a grant that was not used. The key is then abandoned only if it was abandoned before the grant.
   * `owner`: in shared mode, the reader. `grant`: undefined if the answer with the grant was lost; the owner's
   * current grant then ends. `grant.token`: as for {@link release}. True if the owner held the grant.
   */
  giveBack(
    key: string,
    owner: string,
    mode: LockMode,
    grant?: { readonly token: FencingToken | undefined; readonly abandoned: boolean | undefined },
  ): Promise<boolean> {
    if (mode === 'shared') return this.releaseShared(key, owner);
    if (grant?.abandoned === false) return this.release(key, owner, grant.token);
    return this.takeBack(key, owner, grant?.token, false);
  }

  /**
   * Acquires all keys or none. The result is the list of grants, or the index of the first key that another
   * owner holds. Records in `requester` which keys the store may have granted in an answer that was lost, and
   * whether a rollback has failed. `granted`: called after each grant if the keys are requested one after the
   * other. In shared mode, the store must be a `SharedLeaseStore`.
   */
  async tryAcquireAll(
    keys: readonly string[],
    requester: Requester,
    terms: LeaseTerms,
    granted: (key: string) => void,
  ): Promise<readonly KeyGrant[] | number> {
    const store = this.#store;
    if (this.#collected.length > 0) this.#flush();
    if (keys.length === 1) {
      const grant = await this.#tryOne(keys[0]!, requester, terms);
      return grant === undefined ? 0 : [grant];
    }
    const oneByOne = terms.mode === 'shared' || !canDoTogether(store, keys);
    if (oneByOne) return this.#tryOneByOne(keys, requester, terms, granted);
    const { ttl, info } = terms;
    const details: GrantDetails = {};
    try {
      const answer = reportsAbandonment(store)
        ? await store.tryAcquireAll(keys, requester.owner, ttl, info, details)
        : await store.tryAcquireAll(keys, requester.owner, ttl, ...extra(info));
      for (const key of keys) requester.unsure?.delete(key);
      if (typeof answer === 'number') {
        if (keys[answer] === undefined) throw new TypeError(`${answer} is not the place of a key`);
        return answer;
      }
      if (!Array.isArray(answer) || answer.length !== keys.length)
        throw new TypeError('it gave no list of bigints');
      return answer.map((token, i) => grantOf(token, details.abandoned?.[i]));
    } catch (error) {
      for (const key of keys) mayBeGranted(requester, key, error);
      throw error;
    }
  }

  async #tryOne(
    key: string,
    requester: Requester,
    { ttl, info, mode }: LeaseTerms,
  ): Promise<KeyGrant | undefined> {
    const store = this.#store;
    const details: GrantDetails = { abandoned: undefined };
    try {
      if (mode === 'shared') return await this.#tryShared(key, requester.owner, ttl);
      const token = reportsAbandonment(store)
        ? await store.tryAcquire(key, requester.owner, ttl, info, details)
        : await store.tryAcquire(key, requester.owner, ttl, ...extra(info));
      requester.unsure?.delete(key);
      return token === undefined ? undefined : grantOf(token, details.abandoned?.[0]);
    } catch (error) {
      mayBeGranted(requester, key, error);
      throw error;
    }
  }

  async #tryShared(key: string, reader: string, ttl: number): Promise<KeyGrant | undefined> {
    const details: GrantDetails = {};
    const grant = await sharing(this.#store).tryAcquireShared(key, reader, ttl, details);
    if (grant === undefined) return undefined;
    const { token, group } = grant;
    if (typeof group !== 'string') throw new TypeError('its grant in shared mode has no group');
    return { ...grantOf(token, details.abandoned?.[0]), group };
  }

  async #tryOneByOne(
    keys: readonly string[],
    requester: Requester,
    terms: LeaseTerms,
    granted: (key: string) => void,
  ): Promise<readonly KeyGrant[] | number> {
    const grants: KeyGrant[] = [];
    try {
      for (const key of keys) {
        const grant = await this.#tryOne(key, requester, terms);
        if (grant === undefined) return grants.length;
        grants.push(grant);
        granted(key);
      }
      return grants;
    } finally {
      if (grants.length < keys.length) await this.#rollBack(keys, grants, requester, terms.mode);
    }
  }

  /** Ends a grant; see {@link release}. `send`: sends the request that ends the grant with this token. */
  async #endGrant(
    key: string,
    owner: string,
    token: FencingToken | undefined,
    send: (token: FencingToken) => Promise<boolean>,
  ): Promise<boolean> {
    if (token !== undefined) {
      if (await send(token)) return true;
      if (!this.#hasUniqueOwners) return false;
    }
    const current = await tokenOf(this.#store, key, owner);
    return current !== undefined && current !== token && send(current);
  }

  /** Gives back the grants of the first keys, in reverse order. Never rejects. */
  async #rollBack(
    keys: readonly string[],
    grants: readonly KeyGrant[],
    requester: Requester,
    mode: LockMode,
  ): Promise<void> {
    const granted = grants.map((grant, i) => ({ key: keys[i]!, grant })).reverse();
    const given = granted.map(async ({ key, grant }) => {
      try {
        await this.giveBack(key, requester.owner, mode, grant);
      } catch {
        // The key may still be held.
        (requester.unsure ??= new Set()).add(key);
        requester.isSpent = true;
      }
    });
    await Promise.all(given);
  }

  /** Sends all renewals and releases that have not been sent yet. */
  #flush(): void {
    const collected = this.#collected;
    this.#collected = [];
    for (const requests of this.#groupsOf(collected)) {
      const [first] = requests;
      if (requests.length === 1) first!.resolve(this.#askOne(first!));
      else void this.#askTogether(requests);
    }
  }

  #collect(request: Omit<PendingRequest, 'answer' | 'resolve'>): Promise<boolean> {
    const { isRelease, key, owner, ttl, info, token } = request;
    let resolve: PendingRequest['resolve'] | undefined;
    const answer = new Promise<boolean>((settle) => (resolve = settle));
    // The stack has overflowed in the line above, which has rejected the promise.
    if (resolve === undefined) return answer;
    if (this.#collected.length === 0) defer(() => this.#flush(), undefined);
    // Without a spread, which would make each release slower by a microsecond.
    const count = this.#collected.push({ isRelease, key, owner, ttl, info, token, answer, resolve });
    if (count === MOST_KEYS) this.#flush();
    return answer;
  }

  /** Divides the requests into groups that can each be sent in one request. No group contains a key twice. */
  #groupsOf(requests: readonly PendingRequest[]): readonly (readonly PendingRequest[])[] {
    if (requests.length === 1) return [requests];
    const mixes = isBatching(this.#store);
    const groups = new Map<string, Map<string, PendingRequest>>();
    for (const request of requests) {
      const { isRelease, key, owner, ttl, info } = request;
      let name = JSON.stringify(mixes ? isRelease : [isRelease, owner, ttl, info]);
      while (groups.get(name)?.has(key) === true) name += ' again';
      groups.set(name, (groups.get(name) ?? new Map<string, PendingRequest>()).set(key, request));
    }
    return [...groups.values()].map((group) => [...group.values()]);
  }

  async #askTogether(requests: readonly PendingRequest[]): Promise<void> {
    const keys = requests.map(({ key }) => key);
    let answers: readonly (boolean | undefined)[];
    try {
      answers = canDoTogether(this.#store, keys) ? await askAll(this.#store, keys, requests) : [];
    } catch (failure) {
      await this.#askAlone(requests, failure);
      return;
    }
    requests.forEach((request, i) => request.resolve(answers[i] ?? this.#askOne(request)));
  }

  /**
   * Handles the failure of a request for several keys. A batching store rejects only if it cannot be reached,
   * so all requests fail. With another store, a single key may be the cause. So two of the keys are first
   * sent in separate requests. The other keys follow only if the store answers one of these requests, because
   * an outage must not multiply the number of requests.
   */
  async #askAlone(requests: readonly PendingRequest[], failure: unknown): Promise<void> {
    const fail = ({ resolve }: PendingRequest): void => resolve(Promise.reject(failure));
    if (isBatching(this.#store)) {
      requests.forEach(fail);
      return;
    }
    const ask = async (request: PendingRequest): Promise<void> => {
      const answer = this.#askOne(request);
      const settled = answer.then((done) => {
        // The failed request may have freed the key, so the result false would be misleading.
        if (!done && request.isRelease) throw failure;
        return done;
      });
      request.resolve(settled);
      await answer;
    };
    const order = fromAny(requests);
    const probes = await Promise.allSettled(order.splice(0, PROBES).map(ask));
    if (probes.some(({ status }) => status === 'fulfilled')) await Promise.allSettled(order.map(ask));
    else order.forEach(fail);
  }

  async #askOne({ isRelease, key, owner, ttl, info, token }: PendingRequest): Promise<boolean> {
    const store = this.#store;
    if (!isRelease) return store.renew(key, owner, ttl, ...extra(info));
    return token !== undefined && isExact(store)
      ? store.release(key, owner, token)
      : store.release(key, owner);
  }
}

async function askAll(
  store: SeveralKeysLeaseStore,
  keys: readonly string[],
  requests: readonly PendingRequest[],
): Promise<readonly (boolean | undefined)[]> {
  const { isRelease, owner, ttl, info, token } = requests[0]!;
  let answers: unknown;
  if (isBatching(store)) {
    answers = await (isRelease ? store.releaseEach(requests) : store.renewEach(requests));
  } else if (!isRelease) {
    answers = await store.renewAll(keys, owner, ttl, ...extra(info));
  } else {
    // All releases to the same store have tokens, or none of them has.
    const tokens = token === undefined ? [] : [requests.map((request) => request.token!)];
    answers = await store.releaseAll(keys, owner, ...tokens);
  }
  if (Array.isArray(answers) && answers.length === keys.length) return answers as (boolean | undefined)[];
  throw new TypeError(`its answer is not a list of ${keys.length} booleans`);
}

/** The manager has checked that the store can grant keys in shared mode. */
function sharing(store: LeaseStore): SharedLeaseStore {
  return store as SharedLeaseStore;
}

/** Throws a TypeError if the store breaks its contract and the token is not a bigint. */
function grantOf(token: unknown, abandoned: boolean | undefined): KeyGrant {
  if (typeof token !== 'bigint') throw new TypeError(`its token is a ${typeof token}, not a bigint`);
  return { token, abandoned };
}

/**
 * The token of the owner's current grant; undefined if the owner does not hold the key. A release with this
 * token never ends a later grant, even if the release reaches the store late.
 */
async function tokenOf(store: LeaseStore, key: string, owner: string): Promise<FencingToken | undefined> {
  const state = await store.inspect(key);
  return state?.owner === owner ? state.token : undefined;
}

/**
 * The optional argument `info`, as a list. Without `info` the list is empty, because a store that does not
 * support `info` does not expect this argument.
 */
function extra(info: string | undefined): [info?: string] {
  return info === undefined ? [] : [info];
}

/**
 * Call after a failed attempt for a key. The key may have been granted in an answer that was lost. But after
 * a permanent error, nothing was granted.
 */
function mayBeGranted(requester: Requester, key: string, error: unknown): void {
  if (!isPermanent(error)) (requester.unsure ??= new Set()).add(key);
}
