/**
 * What the store needs of a cache: the operations of Memcached, or of any cache whose `add` and `cas` are atomic. A value
 * is a text of at most some kilobytes; a key is at most 250 characters of printable ASCII without spaces. What an
 * operation rejects with, or throws, counts as a failure of the cache.
 *
 * Times to live are milliseconds. A cache that counts whole seconds must round them **up**, and add what it may end an
 * entry too early by: Memcached's clock ticks once a second, so `Math.ceil(ttl / 1000) + 1` seconds. More than 30 days are
 * a date for Memcached: do not ask for such leases there.
 */
export interface CacheClient<C = unknown> {
  /** The value, and an id that changes with every write to the key; undefined if there is none. Memcached calls it "gets". */
  get(key: string): Promise<CacheEntry<C> | undefined>;
  /** Atomically: stores the value if there is none, and then resolves to true. */
  add(key: string, value: string, ttl: number): Promise<boolean>;
  /** Atomically: replaces the value if nobody has written to the key since the `get` that gave `cas`. True if replaced. */
  cas(key: string, value: string, ttl: number, cas: C): Promise<boolean>;
  /**
   * Accepted, and not called: a delete that does not compare could delete the lease of the next holder, if it came late. A
   * release replaces the value by one that says that the key is free.
   */
  delete?(key: string): Promise<unknown>;
}

/** A value of a cache. */
export interface CacheEntry<C = unknown> {
  /** As it was written. */
  readonly value: string;
  /** Whatever the cache's `cas` takes. */
  readonly cas: C;
}
