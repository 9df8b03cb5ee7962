import { defer } from '../../common/host.js';
import { isPermanent } from '../contract/errors.js';
import { isExact, type FencingToken, type InfoLeaseStore, type LeaseStore } from '../contract/lease-store.js';
import type { LeaseTerms } from '../contract/options.js';
import { canDoTogether, type SeveralKeysLeaseStore } from '../contract/several-keys.js';
import type { Asker } from './acquisition.js';
import { handOn } from './polling-queue.js';

/**
 * More are sent at once: a store may have a limit for one step, as the transactions of etcd have 128 parts by default, and
 * to send thousands would block the event loop.
 */
const MOST_KEYS = 50;

/** A renewal, or a release. */
interface PendingRequest {
  readonly key: string;
  readonly owner: string;
  /** Undefined for releases. */
  readonly ttl: number | undefined;
  readonly info: string | undefined;
  /** Only of a release, in a store whose releases name a grant. */
  readonly token: FencingToken | undefined;
  readonly resolve: (result: Promise<boolean>) => void;
}

/**
 * Any store, as if it could do all operations with several keys. A store that cannot is asked for one key after the
 * other, and what it granted is rolled back when a later key is refused.
 *
 * Renewals and releases wait for the end of the current microtask, and are sent together where they differ only in their
 * keys, as for a lease of several keys, or for thousands of leases of one holder. If such a request fails, each key is sent
 * by itself. An attempt sends them first, so the store is asked in the order in which this was.
 */
export class StoreAdapter implements Pick<InfoLeaseStore, 'renew' | 'release'> {
  readonly #store: InfoLeaseStore;
  #collected: PendingRequest[] = [];

  constructor(store: LeaseStore) {
    this.#store = store;
  }

  /**
   * All or none: the tokens, or the place of the first key that another owner has. Notes in the asker what it may have
   * been granted without an answer, and that a rollback has failed. `granted`: called for each key that is granted before
   * the next one is asked for.
   */
  async tryAcquireAll(
    keys: readonly string[],
    asker: Asker,
    terms: LeaseTerms,
    granted: (key: string) => void,
  ): Promise<readonly FencingToken[] | number> {
    const store = this.#store;
    this.#sendAll();
    if (keys.length === 1) {
      const token = await this.#tryOne(keys[0]!, asker, terms);
      return token === undefined ? 0 : [token];
    }
    if (!canDoTogether(store, keys)) return this.#tryOneByOne(keys, asker, terms, granted);
    const { ttl, info } = terms;
    return noting(asker, keys, () => store.tryAcquireAll(keys, asker.owner, ttl, ...extra(info)));
  }

  renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean> {
    return this.#collect(key, owner, ttl, info);
  }

  /** `token`: the grant's token. Undefined if the answer with it was lost: then the owner's current grant ends. */
  async release(key: string, owner: string, token?: FencingToken): Promise<boolean> {
    const store = this.#store;
    const named = isExact(store) ? (token ?? (await grantOf(store, key, owner))) : undefined;
    if (named === undefined && isExact(store)) return false;
    const freed = await this.#collect(key, owner, undefined, undefined, named);
    if (freed) handOn(store, key);
    return freed;
  }

  /** Ends a grant, but leaves the key taken for this time, in milliseconds. `token`: as for {@link release}. */
  async keep(key: string, owner: string, ttl: number, token?: FencingToken): Promise<boolean> {
    const store = this.#store;
    if (!isExact(store)) return this.renew(key, owner, ttl);
    const named = token ?? (await grantOf(store, key, owner));
    return named !== undefined && store.keep(key, owner, ttl, named);
  }

  #tryOne(key: string, asker: Asker, { ttl, info }: LeaseTerms): Promise<FencingToken | undefined> {
    return noting(asker, [key], () => this.#store.tryAcquire(key, asker.owner, ttl, ...extra(info)));
  }

  async #tryOneByOne(
    keys: readonly string[],
    asker: Asker,
    terms: LeaseTerms,
    granted: (key: string) => void,
  ): Promise<readonly FencingToken[] | number> {
    const tokens: FencingToken[] = [];
    try {
      for (const key of keys) {
        const token = await this.#tryOne(key, asker, terms);
        if (token === undefined) return tokens.length;
        tokens.push(token);
        granted(key);
      }
      return tokens;
    } finally {
      if (tokens.length < keys.length) await this.#rollBack(keys, tokens, asker);
    }
  }

  /** Frees as many of the keys as there are tokens, in reverse. Never rejects. */
  async #rollBack(keys: readonly string[], tokens: readonly FencingToken[], asker: Asker): Promise<void> {
    const granted = tokens.map((token, i) => ({ key: keys[i]!, token })).reverse();
    const results = await Promise.allSettled(
      granted.map(({ key, token }) => this.release(key, asker.owner, token)),
    );
    results.forEach(({ status }, i) => {
      if (status === 'rejected') leftOver(asker, granted[i]!.key);
    });
  }

  #collect(
    key: string,
    owner: string,
    ttl: number | undefined,
    info: string | undefined,
    token?: FencingToken,
  ): Promise<boolean> {
    return new Promise((resolve) => {
      if (this.#collected.length === 0) defer(this.#sendAll, undefined);
      const count = this.#collected.push({ key, owner, ttl, info, token, resolve });
      if (count === MOST_KEYS) this.#sendAll();
    });
  }

  readonly #sendAll = (): void => {
    const collected = this.#collected;
    if (collected.length === 0) return;
    this.#collected = [];
    for (const requests of collected.length === 1 ? [collected] : groupsOf(collected)) this.#send(requests);
  };

  /** Requests that differ only in their keys. */
  #send(requests: readonly PendingRequest[]): void {
    const store = this.#store;
    const keys = requests.map(({ key }) => key);
    const all = canDoTogether(store, keys) ? askAll(store, keys, requests) : undefined;
    requests.forEach((request, i) => {
      const one = all?.then(
        (results) => results[i]!,
        (failure: unknown) => this.#askAlone(request, failure),
      );
      request.resolve(one ?? this.#askOne(request));
    });
  }

  /** A request for several keys failed. One of them may be the reason, so each gets its own answer. */
  async #askAlone(request: PendingRequest, failure: unknown): Promise<boolean> {
    const done = await this.#askOne(request);
    // The failed request may have freed the key.
    if (!done && request.ttl === undefined) throw failure;
    return done;
  }

  async #askOne({ key, owner, ttl, info, token }: PendingRequest): Promise<boolean> {
    const store = this.#store;
    if (ttl !== undefined) return store.renew(key, owner, ttl, ...extra(info));
    return token !== undefined && isExact(store)
      ? store.release(key, owner, token)
      : store.release(key, owner);
  }
}

/** Those that differ only in their keys, each key once, as a store expects it. */
function groupsOf(requests: readonly PendingRequest[]): Iterable<PendingRequest[]> {
  const groups = new Map<string, PendingRequest[]>();
  for (const request of requests) {
    const { key, owner, ttl, info } = request;
    let name = JSON.stringify([owner, ttl, info]);
    while (groups.get(name)?.some((other) => other.key === key) === true) name += ' again';
    const group = groups.get(name);
    if (group) group.push(request);
    else groups.set(name, [request]);
  }
  return groups.values();
}

async function askAll(
  store: SeveralKeysLeaseStore,
  keys: readonly string[],
  requests: readonly PendingRequest[],
): Promise<readonly boolean[]> {
  const { owner, ttl, info, token } = requests[0]!;
  let results: unknown;
  if (ttl !== undefined) results = await store.renewAll(keys, owner, ttl, ...extra(info));
  else if (token === undefined) results = await store.releaseAll(keys, owner);
  // In one store each release names its grant, or none does.
  else
    results = await store.releaseAll(
      keys,
      owner,
      requests.map((request) => request.token!),
    );
  if (Array.isArray(results) && results.length === keys.length) return results.map((one) => one === true);
  throw new TypeError(`its answer is not a list of ${keys.length} booleans`);
}

/** The keys may be held although their release failed, and that release may still be executed. */
export function leftOver(asker: Asker, key: string): void {
  (asker.unsure ??= new Set()).add(key);
  asker.isSpent = true;
}

/**
 * The answer. The keys may have been granted although it was lost; but a store that refuses for good has granted nothing.
 */
async function noting<T>(asker: Asker, keys: readonly string[], ask: () => Promise<T>): Promise<T> {
  try {
    const answer = await ask();
    for (const key of keys) asker.unsure?.delete(key);
    return answer;
  } catch (error) {
    if (!isPermanent(error)) for (const key of keys) (asker.unsure ??= new Set()).add(key);
    throw error;
  }
}

/** The token of what the owner holds. A release that names it frees no later grant, even if it reaches the store late. */
async function grantOf(store: LeaseStore, key: string, owner: string): Promise<FencingToken | undefined> {
  const state = await store.inspect(key);
  return state?.owner === owner ? state.token : undefined;
}

/** Only if there is one: a store that keeps no infos expects none. */
function extra(info: string | undefined): [info?: string] {
  return info === undefined ? [] : [info];
}
