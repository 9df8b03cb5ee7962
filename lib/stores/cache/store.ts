import { performance } from '../../common/host.js';
import { checkFunction, checkOptionsObject, checkTimeout } from '../../common/checks.js';
import { invalidArgType } from '../../common/errors.js';
import { checkInfo } from '../../lease/contract/info.js';
import { grantInTime } from '../../lease/contract/late-grant.js';
import {
  checkClock,
  checkKey,
  checkOwner,
  checkTtl,
  readClock,
  type Clock,
  type FencingToken,
  type InfoLeaseState,
  type InfoLeaseStore,
} from '../../lease/contract/lease-store.js';
import { Replies } from '../../lease/contract/replies.js';
import { checkDrift, withDrift } from '../drift.js';
import { HighestTokens } from '../highest-tokens.js';
import type { CacheClient, CacheEntry } from './client.js';
import { Operation } from './operation.js';
import { checkPrefix, decodeRecord, encodeRecord, nameOf, type Record } from './record.js';

/** Milliseconds. */
const DEFAULT_TIMEOUT = 1000;
/** Milliseconds, one hour: for so long a released key keeps its token, if the cache does. */
const TOKEN_KEPT = 3_600_000;
const NANOSECONDS = 1_000_000n;

/** For `cacheLeaseStore`. */
export interface CacheLeaseStoreOptions<C = unknown> extends CacheClient<C> {
  /** Put before every key; at most 100 printable ASCII characters. Default "stripelock:". */
  prefix?: string;
  /** Milliseconds after which an operation without an answer fails. Default 1000. */
  timeout?: number;
  /** By how much the cache's clock may run faster than a holder's, as a fraction. Default 0.001. */
  drift?: number;
  /** The wall clock, from which tokens are made. Default: `Date.now()`. */
  clock?: Clock;
}

/**
 * Leases in any cache that has an atomic `add` and `cas`, such as Memcached. Each operation is two requests, more if
 * others write to the key at the same time. The cache judges expiry.
 *
 * A cache may forget, so this store **cannot promise** what others do. If the cache evicts an entry, is restarted or
 * flushed, or a client of several servers goes to another one, the key is free, and somebody else may be granted it
 * while its holder still counts on its lease. The holder learns of it at its next renewal. And tokens rise only as long as
 * the entry is kept, for an hour after a release, or the wall clocks of all clients agree. Use it to have work done once in
 * general, not where twice does harm, unless what is written checks the tokens, and clocks agree.
 *
 * An operation rejects with LeaseStoreError if the cache fails, does not answer within `timeout`, or has something else
 * at the key. A grant that is answered later is given back.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options.
 */
export function cacheLeaseStore<C>(options: CacheLeaseStoreOptions<C>): InfoLeaseStore {
  return new CacheLeaseStore(options);
}

class CacheLeaseStore<C> implements InfoLeaseStore {
  readonly #cache: CacheClient<C>;
  readonly #prefix: string;
  readonly #replies: Replies;
  readonly #drift: number;
  readonly #clock: Clock | undefined;
  /** Of what this client was given: the cache may have forgotten it. */
  readonly #highest = new HighestTokens();

  constructor(options: CacheLeaseStoreOptions<C>) {
    if ((options as unknown) === undefined) throw invalidArgType('options', 'an object', options);
    checkOptionsObject(options);
    const { prefix, timeout, drift, clock } = options;
    const functions = options as unknown as { readonly [name: string]: unknown };
    for (const name of ['get', 'add', 'cas']) checkFunction(functions[name], `options.${name}`);
    this.#cache = options;
    this.#prefix = checkPrefix(prefix);
    this.#replies = new Replies(
      timeout === undefined ? DEFAULT_TIMEOUT : checkTimeout(timeout, 'options.timeout'),
      'the cache',
    );
    this.#drift = checkDrift(drift);
    this.#clock = clock === undefined ? undefined : checkClock(clock);
  }

  async tryAcquire(
    key: string,
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<FencingToken | undefined> {
    const name = nameOf(this.#prefix, checkKey(key));
    checkOwner(owner);
    const length = withDrift(checkTtl(ttl), this.#drift);
    const text = info === undefined ? '' : checkInfo(info);
    const at = performance.now();
    const giveBack = (token: FencingToken | undefined): unknown =>
      token === undefined ? undefined : this.#free(name, owner, token);
    const operation = new Operation<FencingToken | undefined>(this.#replies, (late) => void giveBack(late));
    const token = await operation.run(async () => {
      for (;;) {
        const found = await this.#read(name);
        const record = found?.record;
        if (record?.owner !== undefined && record.owner !== owner) return undefined;
        const next = this.#nextToken(name, record);
        const value = encodeRecord({ owner, token: next, ends: this.#now() + ttl, info: text });
        const written = found
          ? await this.#cache.cas(name, value, length, found.cas)
          : await this.#cache.add(name, value, length);
        if (written) return next;
        // Somebody else has written meanwhile, so that one made progress.
        if (operation.isOver) return undefined;
      }
    });
    if (token === undefined) return undefined;
    this.#highest.add(name, token);
    return grantInTime(token, { store: 'the cache', at, ttl }, performance.now(), () => giveBack(token));
  }

  async renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean> {
    const name = nameOf(this.#prefix, checkKey(key));
    checkOwner(owner);
    const length = withDrift(checkTtl(ttl), this.#drift);
    const text = info === undefined ? undefined : checkInfo(info);
    return this.#change(name, owner, undefined, (record) => {
      return [{ ...record, ends: this.#now() + ttl, info: text ?? record.info }, length];
    });
  }

  async release(key: string, owner: string): Promise<boolean> {
    return this.#free(nameOf(this.#prefix, checkKey(key)), checkOwner(owner), undefined);
  }

  async inspect(key: string): Promise<InfoLeaseState | undefined> {
    const name = nameOf(this.#prefix, checkKey(key));
    const found = await new Operation<Found<C> | undefined>(this.#replies).run(() => this.#read(name));
    if (found?.record.owner === undefined) return undefined;
    const { owner, token, ends, info } = found.record;
    // The cache does not tell how long it keeps an entry. While it does, the key is held.
    const remaining = Math.max(1, ends - this.#now());
    return info === '' ? { owner, token, remaining } : { owner, token, remaining, info };
  }

  /** `token`: of the grant that it must be; undefined for any. */
  #free(name: string, owner: string, token: FencingToken | undefined): Promise<boolean> {
    return this.#change(name, owner, token, (record) => {
      return [{ owner: undefined, token: record.token, ends: 0, info: '' }, TOKEN_KEPT];
    });
  }

  /** False if the owner does not hold it. */
  #change(
    name: string,
    owner: string,
    token: FencingToken | undefined,
    change: (record: Record) => [record: Record, ttl: number],
  ): Promise<boolean> {
    const operation = new Operation<boolean>(this.#replies);
    return operation.run(async () => {
      while (!operation.isOver) {
        const found = await this.#read(name);
        if (found?.record.owner !== owner || (token !== undefined && found.record.token !== token))
          return false;
        const [record, ttl] = change(found.record);
        if (await this.#cache.cas(name, encodeRecord(record), ttl, found.cas)) return true;
      }
      return false;
    });
  }

  async #read(name: string): Promise<Found<C> | undefined> {
    const entry = (await this.#cache.get(name)) as CacheEntry<C> | undefined | null;
    if (entry === undefined || entry === null) return undefined;
    const record = decodeRecord(entry.value);
    if (record === undefined) throw new TypeError(`the value at ${name} is no lease`);
    return { record, cas: entry.cas };
  }

  #now(): number {
    return this.#clock === undefined ? Date.now() : readClock(this.#clock);
  }

  #nextToken(name: string, record: Record | undefined): FencingToken {
    const clock = BigInt(Math.max(0, Math.floor(this.#now()))) * NANOSECONDS;
    const known = this.#highest.of(name);
    const last = record !== undefined && record.token > known ? record.token : known;
    return clock > last ? clock : last + 1n;
  }
}

interface Found<C> {
  readonly record: Record;
  readonly cas: C;
}
