import { defer } from '../../common/host.js';
import { isExact, type FencingToken, type InfoLeaseStore, type LeaseStore } from '../contract/lease-store.js';
import { canDoTogether, isBatching, type KeyRelease, type Renewal } from '../contract/several-keys.js';

/**
 * The most keys of one request. A store may have a limit for one step, such as the 128 parts of an etcd transaction, and a
 * request with thousands of keys would block the event loop.
 */
const MOST_KEYS = 50;

/** A renewal, or a release. */
interface PendingRequest extends Renewal, KeyRelease {
  /** NaN for releases. */
  readonly ttl: number;
  readonly resolve: (result: Promise<boolean>) => void;
}

/**
 * Sends the renewals and releases of a store. Those that are asked for in the same turn go in one request: leases of all
 * owners together, or, if the store cannot do that, those that differ only in their keys.
 *
 * Each answer stands alone. If such a request fails, or leaves a key undecided, each key concerned is sent by itself.
 */
export class Batches {
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
    return this.#collect({ key, owner, ttl, info, token: undefined });
  }

  /** `token`: the grant's token. Undefined if the answer with it was lost: then the owner's current grant ends. */
  async release(key: string, owner: string, token?: FencingToken): Promise<boolean> {
    const store = this.#store;
    const named = isExact(store) ? (token ?? (await grantOf(store, key, owner))) : undefined;
    if (named === undefined && isExact(store)) return false;
    const freed = await this.#collect({ key, owner, ttl: NaN, info: undefined, token: named });
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

  /** Sends all requests that are waiting. Call this before another request that must not overtake them. */
  flush(): void {
    const collected = this.#collected;
    if (collected.length === 0) return;
    this.#collected = [];
    for (const requests of this.#groupsOf(collected)) this.#send(requests);
  }

  readonly #flush = (): void => this.flush();

  #collect(request: Omit<PendingRequest, 'resolve'>): Promise<boolean> {
    return new Promise((resolve) => {
      if (this.#collected.length === 0) defer(this.#flush, undefined);
      if (this.#collected.push({ ...request, resolve }) === MOST_KEYS) this.flush();
    });
  }

  /** The requests that can go together, each key once. */
  #groupsOf(requests: readonly PendingRequest[]): Iterable<PendingRequest[]> {
    if (requests.length === 1) return [[...requests]];
    const mixes = isBatching(this.#store);
    const groups = new Map<string, { requests: PendingRequest[]; keys: Set<string> }>();
    for (const request of requests) {
      const { key, owner, ttl, info } = request;
      let name = mixes ? String(Number.isNaN(ttl)) : JSON.stringify([owner, ttl, info]);
      while (groups.get(name)?.keys.has(key) === true) name += ' again';
      const group = groups.get(name) ?? { requests: [], keys: new Set() };
      group.requests.push(request);
      group.keys.add(key);
      groups.set(name, group);
    }
    return [...groups.values()].map((group) => group.requests);
  }

  #send(requests: readonly PendingRequest[]): void {
    const all = this.#askAll(requests);
    requests.forEach((request, i) => {
      const one = all?.then(
        (results) => results[i] ?? this.#askOne(request),
        (failure: unknown) => this.#askAlone(request, failure),
      );
      request.resolve(one ?? this.#askOne(request));
    });
  }

  /** Undefined if the store cannot do that in one step. */
  #askAll(requests: readonly PendingRequest[]): Promise<readonly (boolean | undefined)[]> | undefined {
    const store = this.#store;
    const keys = requests.map(({ key }) => key);
    if (!canDoTogether(store, keys)) return undefined;
    const { owner, ttl, info, token } = requests[0]!;
    const isRelease = Number.isNaN(ttl);
    const ask = (): Promise<readonly (boolean | undefined)[]> => {
      if (isBatching(store)) return isRelease ? store.releaseEach(requests) : store.renewEach(requests);
      if (!isRelease) return store.renewAll(keys, owner, ttl, ...extra(info));
      // In one store each release names its grant, or none does.
      if (token === undefined) return store.releaseAll(keys, owner);
      return store.releaseAll(
        keys,
        owner,
        requests.map((request) => request.token!),
      );
    };
    return checked(ask, keys.length);
  }

  /** A request for several keys failed. One of them may be the reason. */
  async #askAlone(request: PendingRequest, failure: unknown): Promise<boolean> {
    const done = await this.#askOne(request);
    // The failed request may have freed the key.
    if (!done && Number.isNaN(request.ttl)) throw failure;
    return done;
  }

  async #askOne({ key, owner, ttl, info, token }: PendingRequest): Promise<boolean> {
    const store = this.#store;
    if (!Number.isNaN(ttl)) return store.renew(key, owner, ttl, ...extra(info));
    return token !== undefined && isExact(store)
      ? store.release(key, owner, token)
      : store.release(key, owner);
  }
}

async function checked(
  ask: () => Promise<readonly (boolean | undefined)[]>,
  count: number,
): Promise<readonly (boolean | undefined)[]> {
  const results: unknown = await ask();
  if (Array.isArray(results) && results.length === count) return results as (boolean | undefined)[];
  throw new TypeError(`its answer is not a list of ${count} booleans`);
}

/** The token of the owner's grant. A release that names it frees no later grant, even if it reaches the store late. */
async function grantOf(store: LeaseStore, key: string, owner: string): Promise<FencingToken | undefined> {
  const state = await store.inspect(key);
  return state?.owner === owner ? state.token : undefined;
}

/** Empty without an info, because a store that keeps no infos expects no such argument. */
export function extra(info: string | undefined): [info?: string] {
  return info === undefined ? [] : [info];
}
