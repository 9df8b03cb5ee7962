import { checkFunction } from '../../common/checks.js';
import {
  checkClock,
  readClock,
  type Clock,
  type FencingToken,
  type ClosableLeaseStore,
  type ExactLeaseStore,
  type InfoLeaseStore,
} from '../../lease/contract/lease-store.js';
import { NOT_ASKED, type Operation, type TimeLimit } from '../requests.js';
import { checkTerms, ServerStore } from '../server-store.js';
import type {
  Attempt,
  Backend,
  Granted,
  Keeping,
  StoredLease,
  Refused,
  Release,
  Releasing,
  Renewing,
  Wanted,
} from '../server-store.js';
import { checkPrefix, decodeRecord, encodeRecord, nameOf, type Record } from './record.js';

/**
 * Milliseconds (one hour) for which the token of a released key is kept, unless the cache evicts the entry.
 */
const TOKEN_KEPT = 3_600_000;
const NANOSECONDS = 1_000_000n;

/**
 * The cache operations that the store uses. Any cache with an atomic `add` and `cas` supports them, for
 * example Memcached. A value is a string of at most a few kilobytes; a key has at most 250 characters of
 * printable ASCII without spaces. If an operation throws or rejects, the cache counts as failed.
 *
 * TTLs are in milliseconds. If the cache counts whole seconds, round TTLs **up**, and add the time by which
 * the cache may evict an entry too early. Memcached's clock ticks once per second, so use
 * `Math.ceil(ttl / 1000) + 1` seconds. Memcached reads a TTL of more than 30 days as a date, so do not use
 * such long leases there.
 */
export interface CacheClient<C = unknown> {
  /**
   * Resolves to the value and an id that changes with every write of the key. Resolves to undefined if the
   * key is absent. In Memcached, this is the command "gets".
   */
  get(key: string): Promise<CacheEntry<C> | undefined>;
  /** Atomically stores the value if the key is absent. Resolves to true if stored. */
  add(key: string, value: string, ttl: number): Promise<boolean>;
  /**
   * Atomically replaces the value if the key was not written since the `get` that returned `cas`. Resolves to
   * true if replaced.
   */
  cas(key: string, value: string, ttl: number, cas: C): Promise<boolean>;
  /**
   * Accepted, but never called. A delete does not compare the entry's id, so a late delete could remove the
   * next holder's lease. Instead, a release uses `cas` to replace the value with one that marks the key as
   * free.
   */
  delete?(key: string): Promise<unknown>;
}

/** An entry of the cache. */
export interface CacheEntry<C = unknown> {
  /** The value, exactly as written. */
  readonly value: string;
  /** The id that the cache's `cas` expects. */
  readonly cas: C;
}

/** Options of `cacheLeaseStore` (`stripelock/cache`). */
export interface CacheLeaseStoreOptions<C = unknown> extends CacheClient<C> {
  /** The text before the name of every key: at most 100 printable ASCII characters. Default "stripelock:". */
  prefix?: string;
  /** Milliseconds after which an operation without an answer fails. Default 1000. */
  timeout?: number;
  /** How much faster the cache's clock may run than a holder's, as a fraction. Default 0.001. */
  drift?: number;
  /** The wall clock that tokens are made from. Default: `Date.now()`. */
  clock?: Clock;
}

/**
 * Leases in any cache with an atomic `add` and `cas`, such as Memcached. Most operations take two requests,
 * or more if other clients write the same key at the same time. The cache's clock decides when a lease
 * expires.
 *
 * A cache may lose entries, so this store **cannot promise** what the other stores promise: that a key has at
 * most one holder. If the cache evicts an entry, restarts or is flushed, or if a client switches to another
 * server, the key is free. Another owner may then acquire the key while the holder still relies on its lease.
 * The holder notices the loss at its next renewal. Tokens are guaranteed to rise only while the entry is kept
 * (for an hour after a release) or while the wall clocks of all clients agree. Use this store to avoid
 * duplicate work. Do not use it where duplicate work does harm, unless clocks agree and every write checks
 * its token.
 *
 * An operation rejects with LeaseStoreError if the cache fails, if it does not answer within `timeout`, or if
 * the value at the key was not written by a store of this kind. A grant that arrives after `timeout` is given
 * back.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options.
 */
export function cacheLeaseStore<C>(
  options: CacheLeaseStoreOptions<C>,
): InfoLeaseStore & ExactLeaseStore & ClosableLeaseStore {
  const terms = checkTerms(options);
  return new ServerStore(new CacheBackend(options), terms, undefined);
}

interface Found<C> {
  readonly record: Record;
  readonly cas: C;
}

/**
 * A limit that has already passed. This limit allows a single try, without a retry after a concurrent write.
 */
const ONCE: TimeLimit = { isLate: true };

class CacheBackend<C> implements Backend {
  readonly title = 'the cache';
  readonly #cache: CacheClient<C>;
  readonly #prefix: string;
  readonly #clock: Clock | undefined;

  constructor(options: CacheLeaseStoreOptions<C>) {
    const { prefix, clock } = options;
    const functions = options as unknown as { readonly [name: string]: unknown };
    for (const name of ['get', 'add', 'cas']) checkFunction(functions[name], `options.${name}`);
    this.#cache = options;
    this.#prefix = checkPrefix(prefix);
    this.#clock = clock === undefined ? undefined : checkClock(clock);
  }

  nameOf(key: string): string {
    return nameOf(this.#prefix, key);
  }

  async acquire(wanted: Wanted, { known }: Attempt, operation: Operation): Promise<Granted | Refused> {
    const { names, owner, length, info = '' } = wanted;
    const name = names[0]!;
    do {
      const found = await this.#read(name);
      if (operation.isLate) throw NOT_ASKED;
      const record = found?.record;
      if (record?.owner !== undefined && record.owner !== owner) break;
      const token = this.#nextToken(known[0]!, record);
      const [ends, left] = this.#notShorter(record, length);
      const value = encodeRecord({ owner, token, ends, info });
      const written = found
        ? await this.#cache.cas(name, value, left, found.cas)
        : await this.#cache.add(name, value, left);
      const giveBack = (): void => void this.#free(name, owner, ONCE, token).catch(() => undefined);
      if (written) return { tokens: [token], giveBack };
      // Another client wrote the key after this client read it. But then the other client made progress, so
      // not all clients can be stuck in this loop.
    } while (!operation.isLate);
    return { place: 0 };
  }

  async renew(keys: readonly Renewing[], operation: Operation): Promise<boolean[]> {
    const { name, owner, length, info } = keys[0]!;
    const renewed = await this.#change(name, owner, operation, undefined, (record) => {
      const [ends, left] = this.#notShorter(record, length);
      return [{ ...record, ends, info: info ?? record.info }, left];
    });
    return [renewed];
  }

  async keep({ name, owner, length, token, keptOwner }: Keeping, operation: Operation): Promise<boolean> {
    const isKept = await this.#change(name, owner, operation, token, (record) => {
      return [{ ...record, owner: keptOwner, ends: this.#now() + length }, length];
    });
    // An earlier copy of this request may have ended the grant.
    if (isKept) return true;
    const record = (await this.#read(name))?.record;
    return record?.owner === keptOwner && record.token === token;
  }

  async release(keys: readonly Releasing[], operation: Operation): Promise<Release[]> {
    const { name, owner, token } = keys[0]!;
    return [(await this.#free(name, owner, operation, token)) ? 'unnotified' : 'not held'];
  }

  async inspect(name: string): Promise<StoredLease | undefined> {
    const record = (await this.#read(name))?.record;
    if (record?.owner === undefined) return undefined;
    // The cache does not report an entry's remaining time, so this is an estimate.
    return { ...record, owner: record.owner, remaining: record.ends - this.#now() };
  }

  #free(name: string, owner: string, limit: TimeLimit, token?: FencingToken): Promise<boolean> {
    return this.#change(name, owner, limit, token, (record) => {
      return [{ owner: undefined, token: record.token, ends: 0, info: '' }, TOKEN_KEPT];
    });
  }

  /**
   * Changes the record of a key. Resolves to false if the owner does not hold the key. `token`: the required
   * grant's token. If undefined, any grant of the owner matches.
   */
  async #change(
    name: string,
    owner: string,
    limit: TimeLimit,
    token: FencingToken | undefined,
    change: (record: Record) => [record: Record, ttl: number],
  ): Promise<boolean> {
    do {
      const found = await this.#read(name);
      if (found?.record.owner !== owner) return false;
      if (token !== undefined && found.record.token !== token) return false;
      const [record, ttl] = change(found.record);
      if (await this.#cache.cas(name, encodeRecord(record), ttl, found.cas)) return true;
    } while (!limit.isLate);
    return false;
  }

  async #read(name: string): Promise<Found<C> | undefined> {
    const entry = (await this.#cache.get(name)) as CacheEntry<C> | undefined | null;
    if (entry === undefined || entry === null) return undefined;
    const record = decodeRecord(entry.value);
    if (record === undefined) throw new TypeError(`the value at ${name} is not a lease`);
    return { record, cas: entry.cas };
  }

  /**
   * The end to write for a lease of `length` milliseconds, and the time until then in milliseconds. The lease does not
   * become shorter, provided that the wall clocks of the clients agree.
   */
  #notShorter(record: Record | undefined, length: number): readonly [ends: number, left: number] {
    const now = this.#now();
    const left = record?.owner === undefined ? length : Math.max(length, Math.ceil(record.ends - now));
    return [now + left, left];
  }

  #now(): number {
    // eslint-disable-next-line no-restricted-properties -- tokens are made from the wall clock
    return this.#clock === undefined ? Date.now() : readClock(this.#clock);
  }

  #nextToken(known: FencingToken, record: Record | undefined): FencingToken {
    const clock = BigInt(Math.max(0, Math.floor(this.#now()))) * NANOSECONDS;
    const last = record !== undefined && record.token > known ? record.token : known;
    return clock > last ? clock : last + 1n;
  }
}
