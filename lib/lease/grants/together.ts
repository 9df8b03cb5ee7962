import { canDoTogether } from '../contract/several-keys.js';
import type { InfoLeaseStore, LeaseStore } from '../contract/lease-store.js';

interface Request {
  readonly key: string;
  readonly resolve: (result: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/** Requests that differ only in their keys. */
interface Group {
  readonly owner: string;
  /** Undefined for releases. */
  readonly ttl: number | undefined;
  readonly info: string | undefined;
  readonly requests: Request[];
}

/**
 * Renewals and releases of a store. What is asked while {@link run} runs is sent when that ends: in one request for each
 * owner, if the store can do several keys in one step, else all at once, one by one.
 */
export class Together implements Pick<InfoLeaseStore, 'renew' | 'release'> {
  readonly #store: InfoLeaseStore;
  #groups: Group[] | undefined;

  constructor(store: LeaseStore) {
    this.#store = store;
  }

  run<T>(body: () => T): T {
    if (this.#groups !== undefined) return body();
    const groups: Group[] = [];
    this.#groups = groups;
    try {
      return body();
    } finally {
      this.#groups = undefined;
      for (const group of groups) this.#send(group);
    }
  }

  renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean> {
    const groups = this.#groups;
    return groups ? add(groups, key, owner, ttl, info) : renewOne(this.#store, key, owner, ttl, info);
  }

  release(key: string, owner: string): Promise<boolean> {
    return this.#groups
      ? add(this.#groups, key, owner, undefined, undefined)
      : this.#store.release(key, owner);
  }

  #send(group: Group): void {
    const { requests } = group;
    const keys = requests.map(({ key }) => key);
    if (canDoTogether(this.#store, keys)) {
      this.#sendAll(keys, group).catch((error: unknown) => {
        for (const { reject } of requests) reject(error);
      });
    } else {
      for (const request of requests) this.#sendOne(request, group).catch(request.reject);
    }
  }

  async #sendAll(keys: readonly string[], { owner, ttl, info, requests }: Group): Promise<void> {
    const store = this.#store;
    if (!canDoTogether(store, keys)) return;
    const results: unknown =
      ttl === undefined
        ? await store.releaseAll(keys, owner)
        : await store.renewAll(keys, owner, ttl, ...(info === undefined ? [] : [info]));
    if (!Array.isArray(results) || results.length !== keys.length) {
      throw new TypeError(`its answer is no list of ${keys.length} booleans`);
    }
    requests.forEach(({ resolve }, i) => resolve(results[i] === true));
  }

  async #sendOne({ key, resolve }: Request, { owner, ttl, info }: Group): Promise<void> {
    const store = this.#store;
    const answer = ttl === undefined ? store.release(key, owner) : renewOne(store, key, owner, ttl, info);
    resolve(await answer);
  }
}

/** A store that keeps no infos gets none, if there is none. */
function renewOne(
  store: InfoLeaseStore,
  key: string,
  owner: string,
  ttl: number,
  info: string | undefined,
): Promise<boolean> {
  return info === undefined ? store.renew(key, owner, ttl) : store.renew(key, owner, ttl, info);
}

function add(
  groups: Group[],
  key: string,
  owner: string,
  ttl: number | undefined,
  info: string | undefined,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const request = { key, resolve, reject };
    const group = groups.find((other) => other.owner === owner && other.ttl === ttl && other.info === info);
    if (group) group.requests.push(request);
    else groups.push({ owner, ttl, info, requests: [request] });
  });
}
