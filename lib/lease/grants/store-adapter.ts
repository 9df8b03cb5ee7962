import { isPermanent } from '../contract/errors.js';
import type { FencingToken, InfoLeaseStore, LeaseStore } from '../contract/lease-store.js';
import type { LeaseTerms } from '../contract/options.js';
import { canDoTogether, type SeveralKeysLeaseStore } from '../contract/several-keys.js';
import type { Asker } from './acquisition.js';
import { handOn } from './polling-queue.js';

interface PendingRequest {
  readonly key: string;
  readonly resolve: (result: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/** A store may have a limit for one step: the transactions of etcd have 128 parts by default. */
const MOST_KEYS = 50;

/** Requests that differ only in their keys. */
interface Group {
  readonly owner: string;
  /** Undefined for releases. */
  readonly ttl: number | undefined;
  readonly info: string | undefined;
  readonly requests: PendingRequest[];
}

/**
 * Any store, as if it could do all operations with several keys. A store that cannot is asked for one key after the
 * other, and what it granted is rolled back when a later key is refused.
 */
export class StoreAdapter implements Pick<InfoLeaseStore, 'renew' | 'release'> {
  readonly #store: InfoLeaseStore;
  #groups: Map<string, Group> | undefined;

  constructor(store: LeaseStore) {
    this.#store = store;
  }

  /**
   * All or none: the tokens, or the place of the first key that another owner has. Notes in the asker what it may have
   * been granted without an answer, and that a rollback has failed.
   */
  async tryAcquireAll(
    keys: readonly string[],
    asker: Asker,
    terms: LeaseTerms,
  ): Promise<readonly FencingToken[] | number> {
    const store = this.#store;
    if (keys.length === 1) {
      const token = await this.#tryOne(keys[0]!, asker, terms);
      return token === undefined ? 0 : [token];
    }
    if (!canDoTogether(store, keys)) return this.#tryOneByOne(keys, asker, terms);
    const { ttl, info } = terms;
    return noting(asker, keys, () => store.tryAcquireAll(keys, asker.owner!, ttl, ...extra(info)));
  }

  /** What holds ask of the store while the body runs goes there together. */
  together<T>(body: () => T): T {
    if (this.#groups !== undefined) return body();
    const groups = new Map<string, Group>();
    this.#groups = groups;
    try {
      return body();
    } finally {
      this.#groups = undefined;
      for (const group of groups.values()) this.#send(group);
    }
  }

  renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean> {
    return this.#groups === undefined
      ? this.#store.renew(key, owner, ttl, ...extra(info))
      : add(this.#groups, key, owner, ttl, info);
  }

  async release(key: string, owner: string): Promise<boolean> {
    const groups = this.#groups;
    const freed = await (groups === undefined
      ? this.#store.release(key, owner)
      : add(groups, key, owner, undefined, undefined));
    if (freed) handOn(this.#store, key);
    return freed;
  }

  #tryOne(key: string, asker: Asker, { ttl, info }: LeaseTerms): Promise<FencingToken | undefined> {
    return noting(asker, [key], () => this.#store.tryAcquire(key, asker.owner!, ttl, ...extra(info)));
  }

  async #tryOneByOne(
    keys: readonly string[],
    asker: Asker,
    terms: LeaseTerms,
  ): Promise<readonly FencingToken[] | number> {
    const tokens: FencingToken[] = [];
    try {
      for (const key of keys) {
        const token = await this.#tryOne(key, asker, terms);
        if (token === undefined) return tokens.length;
        tokens.push(token);
      }
      return tokens;
    } finally {
      if (tokens.length < keys.length) await this.#rollBack(keys.slice(0, tokens.length), asker);
    }
  }

  /** In reverse. Never rejects. */
  async #rollBack(keys: readonly string[], asker: Asker): Promise<void> {
    const reversed = [...keys].reverse();
    const results = await Promise.allSettled(reversed.map((key) => this.release(key, asker.owner!)));
    results.forEach(({ status }, i) => {
      if (status === 'rejected') leftOver(asker, reversed[i]!);
    });
  }

  #send({ requests, ...alike }: Group): void {
    for (let i = 0; i < requests.length; i += MOST_KEYS) {
      this.#sendPart({ ...alike, requests: requests.slice(i, i + MOST_KEYS) });
    }
  }

  #sendPart(group: Group): void {
    const { requests } = group;
    const keys = requests.map(({ key }) => key);
    const store = this.#store;
    if (canDoTogether(store, keys)) {
      sendAll(store, keys, group).catch((error: unknown) => {
        for (const { reject } of requests) reject(error);
      });
    } else {
      for (const request of requests) this.#sendOne(request, group).catch(request.reject);
    }
  }

  async #sendOne({ key, resolve }: PendingRequest, { owner, ttl, info }: Group): Promise<void> {
    const store = this.#store;
    resolve(
      await (ttl === undefined ? store.release(key, owner) : store.renew(key, owner, ttl, ...extra(info))),
    );
  }
}

async function sendAll(
  store: SeveralKeysLeaseStore,
  keys: readonly string[],
  { owner, ttl, info, requests }: Group,
): Promise<void> {
  const results: unknown =
    ttl === undefined
      ? await store.releaseAll(keys, owner)
      : await store.renewAll(keys, owner, ttl, ...extra(info));
  if (!Array.isArray(results) || results.length !== keys.length) {
    throw new TypeError(`its answer is not a list of ${keys.length} booleans`);
  }
  requests.forEach(({ resolve }, i) => resolve(results[i] === true));
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

/** Only if there is one: a store that keeps no infos expects none. */
function extra(info: string | undefined): [info?: string] {
  return info === undefined ? [] : [info];
}

function add(
  groups: Map<string, Group>,
  key: string,
  owner: string,
  ttl: number | undefined,
  info: string | undefined,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const request = { key, resolve, reject };
    const alike = JSON.stringify([owner, ttl, info]);
    const group = groups.get(alike);
    if (group) group.requests.push(request);
    else groups.set(alike, { owner, ttl, info, requests: [request] });
  });
}
