import { canDoTogether } from '../contract/several-keys.js';
import type { LeaseStore } from '../contract/lease-store.js';

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
  readonly requests: Request[];
}

/**
 * Renewals and releases of a store. What is asked while {@link run} runs is sent when that ends: in one request for each
 * owner, if the store can do several keys in one step, else all at once, one by one.
 */
export class Together implements Pick<LeaseStore, 'renew' | 'release'> {
  readonly #store: LeaseStore;
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

  renew(key: string, owner: string, ttl: number): Promise<boolean> {
    return this.#groups ? add(this.#groups, key, owner, ttl) : this.#store.renew(key, owner, ttl);
  }

  release(key: string, owner: string): Promise<boolean> {
    return this.#groups ? add(this.#groups, key, owner, undefined) : this.#store.release(key, owner);
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

  async #sendAll(keys: readonly string[], { owner, ttl, requests }: Group): Promise<void> {
    const store = this.#store;
    if (!canDoTogether(store, keys)) return;
    const results: unknown =
      ttl === undefined ? await store.releaseAll(keys, owner) : await store.renewAll(keys, owner, ttl);
    if (!Array.isArray(results) || results.length !== keys.length) {
      throw new TypeError(`its answer is no list of ${keys.length} booleans`);
    }
    requests.forEach(({ resolve }, i) => resolve(results[i] === true));
  }

  async #sendOne({ key, resolve }: Request, { owner, ttl }: Group): Promise<void> {
    const store = this.#store;
    resolve(await (ttl === undefined ? store.release(key, owner) : store.renew(key, owner, ttl)));
  }
}

function add(groups: Group[], key: string, owner: string, ttl: number | undefined): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const request = { key, resolve, reject };
    const group = groups.find((other) => other.owner === owner && other.ttl === ttl);
    if (group) group.requests.push(request);
    else groups.push({ owner, ttl, requests: [request] });
  });
}
