import { defer } from '../common/host.js';
import { isPermanent } from './contract/errors.js';
import { isExact, type FencingToken, type InfoLeaseStore, type LeaseStore } from './contract/lease-store.js';
import type { LeaseTerms } from './contract/options.js';
import {
  canDoTogether,
  isBatching,
  type KeyRelease,
  type Renewal,
  type SeveralKeysLeaseStore,
} from './contract/several-keys.js';
import { fromAny } from './contract/slots.js';

/**
 * The most keys of one request. A store may have a limit for one step, such as the 128 parts of an etcd transaction, and a
 * request with thousands of keys would block the event loop.
 */
const MOST_KEYS = 50;
/** Keys asked for alone after a failure, to see whether the store answers. One of them may be the reason of the failure. */
const PROBES = 2;

/** The owner for which an acquisition asks the store. It uses the holds that are granted until there is a lease. */
export interface Requester {
  readonly owner: string;
  /** The keys that the store may have granted to it in an answer that was lost. */
  unsure: Set<string> | undefined;
  /** A release has failed. The store may execute it later, and free what the same owner has been granted since. */
  isSpent: boolean;
  /** The acquisition has ended, so the rest of its attempt is not needed. */
  isCancelled: boolean;
}

/** A renewal, or a release. */
interface PendingRequest extends Renewal, KeyRelease {
  /** NaN for releases. */
  readonly ttl: number;
  readonly resolve: (result: boolean | Promise<boolean>) => void;
}

/**
 * All requests to a store that change something, as if each store could do them with several keys at once.
 *
 * Renewals and releases that are asked for in the same turn go in one request: leases of all owners together, or, if the store
 * cannot do that, those that differ only in their keys. Each answer stands alone. If such a request leaves a key
 * undecided, that key is sent again by itself. If the request fails although the store can be reached, each of its keys is sent
 * by itself.
 *
 * An attempt first sends the renewals and releases that were asked for. A store that acquires one key at a time is asked for one
 * after the other, and what it granted is rolled back when a later key is refused.
 */
export class StoreRequests {
  readonly #store: InfoLeaseStore;
  readonly #freed: (key: string) => void;
  #collected: PendingRequest[] = [];

  /** `freed`: called after each release that freed its key. */
  constructor(store: LeaseStore, freed: (key: string) => void) {
    this.#store = store;
    this.#freed = freed;
  }

  /** As `renew` of the store. */
  renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean> {
    return this.#collect(key, owner, ttl, info, undefined);
  }

  /** `token`: the grant's token. Undefined if the answer with it was lost: then the owner's current grant ends. */
  async release(key: string, owner: string, token?: FencingToken): Promise<boolean> {
    const store = this.#store;
    const named = isExact(store) ? (token ?? (await grantOf(store, key, owner))) : undefined;
    if (named === undefined && isExact(store)) return false;
    const freed = await this.#collect(key, owner, NaN, undefined, named);
    if (freed) this.#freed(key);
    return freed;
  }

  /** Ends a grant, but leaves the key taken for `ttl` milliseconds. `token`: as for {@link release}. */
  async keep(key: string, owner: string, ttl: number, token?: FencingToken): Promise<boolean> {
    const store = this.#store;
    if (!isExact(store)) return this.renew(key, owner, ttl);
    const named = token ?? (await grantOf(store, key, owner));
    return named !== undefined && store.keep(key, owner, ttl, named);
  }

  /**
   * All or none: the tokens, or the place of the first key that another owner has. Notes in the requester what it may have
   * been granted without an answer, and that a rollback has failed. `granted`: called for each key that is granted before
   * the next one is asked for.
   */
  async tryAcquireAll(
    keys: readonly string[],
    requester: Requester,
    terms: LeaseTerms,
    granted: (key: string) => void,
  ): Promise<readonly FencingToken[] | number> {
    const store = this.#store;
    if (this.#collected.length > 0) this.#flush();
    if (keys.length === 1) {
      const token = await this.#tryOne(keys[0]!, requester, terms);
      return token === undefined ? 0 : [token];
    }
    if (!canDoTogether(store, keys)) return this.#tryOneByOne(keys, requester, terms, granted);
    const { ttl, info } = terms;
    try {
      const answer = await store.tryAcquireAll(keys, requester.owner, ttl, ...extra(info));
      for (const key of keys) requester.unsure?.delete(key);
      return answer;
    } catch (error) {
      for (const key of keys) mayBeGranted(requester, key, error);
      throw error;
    }
  }

  async #tryOne(
    key: string,
    requester: Requester,
    { ttl, info }: LeaseTerms,
  ): Promise<FencingToken | undefined> {
    try {
      const token = await this.#store.tryAcquire(key, requester.owner, ttl, ...extra(info));
      requester.unsure?.delete(key);
      return token;
    } catch (error) {
      mayBeGranted(requester, key, error);
      throw error;
    }
  }

  async #tryOneByOne(
    keys: readonly string[],
    requester: Requester,
    terms: LeaseTerms,
    granted: (key: string) => void,
  ): Promise<readonly FencingToken[] | number> {
    const tokens: FencingToken[] = [];
    try {
      for (const key of keys) {
        const token = await this.#tryOne(key, requester, terms);
        if (token === undefined) return tokens.length;
        tokens.push(token);
        granted(key);
      }
      return tokens;
    } finally {
      if (tokens.length < keys.length) await this.#rollBack(keys, tokens, requester);
    }
  }

  /** Frees as many of the keys as there are tokens, in reverse. Never rejects. */
  async #rollBack(
    keys: readonly string[],
    tokens: readonly FencingToken[],
    requester: Requester,
  ): Promise<void> {
    const granted = tokens.map((token, i) => ({ key: keys[i]!, token })).reverse();
    const results = await Promise.allSettled(
      granted.map(({ key, token }) => this.release(key, requester.owner, token)),
    );
    results.forEach(({ status }, i) => {
      if (status === 'rejected') leftOver(requester, granted[i]!.key);
    });
  }

  /** Sends all renewals and releases that are waiting. */
  #flush(): void {
    const collected = this.#collected;
    this.#collected = [];
    for (const requests of this.#groupsOf(collected)) {
      const [first] = requests;
      if (requests.length === 1) first!.resolve(this.#askOne(first!));
      else void this.#askTogether(requests);
    }
  }

  #collect(
    key: string,
    owner: string,
    ttl: number,
    info: string | undefined,
    token: FencingToken | undefined,
  ): Promise<boolean> {
    return new Promise((resolve) => {
      if (this.#collected.length === 0) defer(() => this.#flush(), undefined);
      const count = this.#collected.push({ key, owner, ttl, info, token, resolve });
      if (count === MOST_KEYS) this.#flush();
    });
  }

  /** The requests that can go together, each key once. */
  #groupsOf(requests: readonly PendingRequest[]): readonly (readonly PendingRequest[])[] {
    if (requests.length === 1) return [requests];
    const mixes = isBatching(this.#store);
    const groups = new Map<string, Map<string, PendingRequest>>();
    for (const request of requests) {
      const { key, owner, ttl, info } = request;
      let name = mixes ? String(Number.isNaN(ttl)) : JSON.stringify([owner, ttl, info]);
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
   * A request for several keys has failed. If the store decides each key by itself, it cannot be reached. Otherwise one of the
   * keys may be the reason, so two of them are asked for alone. The others follow only if the store answers: an outage must not
   * multiply requests.
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
        // The failed request may have freed the key.
        if (!done && Number.isNaN(request.ttl)) throw failure;
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

  async #askOne({ key, owner, ttl, info, token }: PendingRequest): Promise<boolean> {
    const store = this.#store;
    if (!Number.isNaN(ttl)) return store.renew(key, owner, ttl, ...extra(info));
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
  const { owner, ttl, info, token } = requests[0]!;
  const isRelease = Number.isNaN(ttl);
  let answers: unknown;
  if (isBatching(store)) {
    answers = await (isRelease ? store.releaseEach(requests) : store.renewEach(requests));
  } else if (!isRelease) {
    answers = await store.renewAll(keys, owner, ttl, ...extra(info));
  } else {
    // In one store each release names its grant, or none does.
    const tokens = token === undefined ? [] : [requests.map((request) => request.token!)];
    answers = await store.releaseAll(keys, owner, ...tokens);
  }
  if (Array.isArray(answers) && answers.length === keys.length) return answers as (boolean | undefined)[];
  throw new TypeError(`its answer is not a list of ${keys.length} booleans`);
}

/** The token of the owner's grant. A release that names it frees no later grant, even if it reaches the store late. */
async function grantOf(store: LeaseStore, key: string, owner: string): Promise<FencingToken | undefined> {
  const state = await store.inspect(key);
  return state?.owner === owner ? state.token : undefined;
}

/** Empty without an info, because a store that keeps no infos expects no such argument. */
function extra(info: string | undefined): [info?: string] {
  return info === undefined ? [] : [info];
}

/** The keys may be held although their release failed, and that release may still be executed. */
function leftOver(requester: Requester, key: string): void {
  (requester.unsure ??= new Set()).add(key);
  requester.isSpent = true;
}

/** An attempt has failed. Its answer may be lost; but a store that refuses for good has granted nothing. */
function mayBeGranted(requester: Requester, key: string, error: unknown): void {
  if (!isPermanent(error)) (requester.unsure ??= new Set()).add(key);
}
