import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CacheClient, CacheEntry } from 'stripelock/cache';

interface Item {
  readonly value: string;
  readonly cas: bigint;
  readonly expires: number;
}

/**
 * Memcached, as far as its operations go: values with an id that rises with every write, expiry by its own clock, and
 * eviction whenever it likes.
 */
export class FakeCache {
  readonly items = new Map<string, Item>();
  /** The requests, in order. */
  readonly asked: string[] = [];
  now: () => number;
  #cas = 0n;

  constructor(now: () => number = () => performance.now()) {
    this.now = now;
  }

  /** Forgets a key, or everything, as a cache that needs the memory. */
  evict(name?: string): void {
    if (name === undefined) this.items.clear();
    else this.items.delete(name);
  }

  /** Loses everything, and starts to count again. */
  restart(): void {
    this.items.clear();
    this.#cas = 0n;
  }

  get(key: string): CacheEntry<bigint> | undefined {
    this.#ask('get', key);
    return this.#live(key);
  }

  add(key: string, value: string, ttl: number): boolean {
    this.#ask('add', key);
    if (this.#live(key)) return false;
    this.#set(key, value, ttl);
    return true;
  }

  cas(key: string, value: string, ttl: number, cas: bigint): boolean {
    this.#ask('cas', key);
    if (this.#live(key)?.cas !== cas) return false;
    this.#set(key, value, ttl);
    return true;
  }

  delete(key: string): boolean {
    this.#ask('delete', key);
    return this.items.delete(key);
  }

  #ask(operation: string, key: string): void {
    if (key.length > 250 || !/^[!-~]+$/.test(key)) throw new Error(`CLIENT_ERROR bad key ${key}`);
    this.asked.push(operation);
  }

  #live(key: string): Item | undefined {
    const item = this.items.get(key);
    return item && item.expires > this.now() ? item : undefined;
  }

  #set(key: string, value: string, ttl: number): void {
    this.items.set(key, { value, cas: ++this.#cas, expires: this.now() + ttl });
  }
}

/** A client of it, whose requests and replies each take a turn of the event loop. */
export function clientOf(cache: FakeCache): CacheClient<bigint> {
  const over = async <T>(request: () => T): Promise<T> => {
    await nextTurn();
    const reply = request();
    await nextTurn();
    return reply;
  };
  return {
    get: (key) => over(() => cache.get(key)),
    add: (...of) => over(() => cache.add(...of)),
    cas: (...of) => over(() => cache.cas(...of)),
    delete: (key) => over(() => cache.delete(key)),
  };
}

/**
 * The same for a cache that counts whole seconds, as Memcached: its clock ticks once a second, so an entry ends up to a
 * second too early.
 */
export function coarseClientOf(cache: FakeCache): CacheClient<bigint> {
  const exact = clientOf(cache);
  const clock = cache.now;
  cache.now = () => Math.floor(clock() / 1000) * 1000;
  const seconds = (ttl: number): number => (Math.ceil(ttl / 1000) + 1) * 1000;
  return {
    ...exact,
    add: (key, value, ttl) => exact.add(key, value, seconds(ttl)),
    cas: (key, value, ttl, cas) => exact.cas(key, value, seconds(ttl), cas),
  };
}
