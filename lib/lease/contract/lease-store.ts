import { invalidArgType, outOfRange } from '../../common/errors.js';
import type { HostUrl } from '../../common/types.js';

/**
 * A number that rises with each grant of a key, even after a release, an expiry or a crash. A protected
 * resource can therefore refuse a write if an earlier write had a higher token.
 */
export type FencingToken = bigint;

/** A clock that the caller provides, mainly for tests. */
export interface Clock {
  /** The current time in milliseconds. It must never go backwards. */
  now(): number;
}

/** A clock that advances only when code sets it. It notifies its listeners each time it is set. */
export interface AdvancingClock extends Clock {
  /** Calls `listener` each time the clock is set. The returned function stops these calls. */
  onAdvance(listener: () => void): () => void;
}

/** The state of a held lease, as its store reports it. */
export interface LeaseState {
  /**
   * The owner that was passed to `tryAcquire`. If readers hold the key, the name of their group. If the key is kept
   * after a release, `stripelock:kept:` and the owner.
   */
  owner: string;
  /** The token of the grant. */
  token: FencingToken;
  /** Milliseconds until the lease expires, by the store's clock. */
  remaining: number;
}

/** The state of a held lease in a store that keeps a text, the `info`, with each lease. */
export interface InfoLeaseState extends LeaseState {
  /** The text that the holder stored with the lease. Absent if there is none. */
  info?: string;
}

/**
 * A store of leases. If another owner holds the key, an operation reports this by its result, not by an
 * error. Operations reject only if the backend fails or an argument is bad.
 *
 * Keys and owners are non-empty strings. TTLs are whole milliseconds from 1 to 2^42. For any other value, an
 * operation rejects with a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) before it sends
 * a request. At the exact time at which a lease expires, the lease is no longer held. `leaseStoreContract` of
 * `stripelock/testing` tests that a store meets all requirements.
 *
 * A request may reach a server twice. A request may also arrive late, after newer requests that used other
 * connections. Such a request must not undo a newer request:
 *
 * - A renewal never shortens a lease, and neither does another grant to its owner. Only an operation that ends
 *   the grant can shorten the lease: a release, or {@link ExactLeaseStore.keep}.
 * - After `keep`, no request of the grant's owner changes anything. So the key then has another owner:
 *   `stripelock:kept:` followed by the owner of the grant.
 * - In a store with {@link ExactLeaseStore.release}, a release passes the token of the grant that it ends. In
 *   other stores, a late release can free a later lease of the same owner. An owner can have
 *   several leases in turn if its manager has the option `holder` or `reentrant`.
 * - A store may limit the time of an attempt. If a grant arrives after that limit, the store releases the
 *   grant by its token. The store must not release the key by owner alone, because a later attempt of the
 *   same owner may hold the key by then.
 */
export interface LeaseStore {
  /**
   * Atomically grants the key to the owner for `ttl` milliseconds, if the key is free, its lease has expired,
   * or this same owner holds it. In the last case, the lease expires at the later of the old and the new
   * time. Resolves to the token of the grant, which is a new token in each of these cases. Resolves to
   * undefined if another owner holds the key.
   */
  tryAcquire(key: string, owner: string, ttl: number): Promise<FencingToken | undefined>;
  /**
   * Extends the lease to `ttl` milliseconds from now, if the owner still holds the key. Never shortens the
   * lease, and never changes its token. Resolves to true if the owner holds the key.
   */
  renew(key: string, owner: string, ttl: number): Promise<boolean>;
  /** Atomically frees the key if the owner still holds it. Resolves to true if this call freed the key. */
  release(key: string, owner: string): Promise<boolean>;
  /** The state of the key's lease; undefined if the key is free. */
  inspect(key: string): Promise<LeaseState | undefined>;
  /** Closes the resources that the store opened itself, such as connections. Managers never call this. */
  close?(): Promise<void>;
}

/** A store with a `close` method, which managers never call. */
export interface ClosableLeaseStore extends LeaseStore {
  /** Closes the resources that the store opened itself, such as connections. */
  close(): Promise<void>;
}

/** A store that keeps a short text, the `info`, with each lease. `inspect` returns this text. */
export interface InfoLeaseStore extends LeaseStore {
  /**
   * As {@link LeaseStore.tryAcquire}. A grant also stores the text `info`, at most 1024 bytes in UTF-8, with
   * the lease. A grant without `info` removes the text of an earlier grant.
   */
  tryAcquire(key: string, owner: string, ttl: number, info?: string): Promise<FencingToken | undefined>;
  /**
   * As {@link LeaseStore.renew}. If `info` is given, it replaces the text of the lease. An empty `info`
   * removes that text.
   */
  renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean>;
  /** The state of the key's lease; undefined if the key is free. */
  inspect(key: string): Promise<InfoLeaseState | undefined>;
}

/**
 * A store whose `release` accepts the token of the grant to end. Managers recognize such a store by its
 * method `keep`, and then pass tokens to `release`.
 *
 * A store without `keep` gets no tokens. If a lease in such a store is released before its `minHold` has
 * passed, the manager renews the lease for the rest of that time. A renewal never shortens a lease, so the
 * key may stay taken until the TTL of the lease expires.
 */
export interface ExactLeaseStore extends LeaseStore {
  /**
   * As {@link LeaseStore.release}. If `token` is given, frees the key only if its current grant has this
   * token.
   */
  release(key: string, owner: string, token?: FencingToken): Promise<boolean>;
  /**
   * Ends the grant with this token, but keeps the key taken for `ttl` milliseconds from now. After that time
   * the key is free, even if the lease would have lasted longer. Until then, no owner is granted the key, not
   * even this one: the key has the same token, but its owner is `stripelock:kept:` followed by `owner`. Resolves
   * to true if the owner held this grant. Also resolves to true if an earlier `keep` has ended this grant and the
   * key is still kept; this call then changes nothing.
   */
  keep(key: string, owner: string, ttl: number, token: FencingToken): Promise<boolean>;
}

/** The owners of keys that are kept after the end of a grant start with this text. */
export const KEPT = 'stripelock:kept:';

/** The owner of a key after {@link ExactLeaseStore.keep}. `owner`: the owner of the grant that has ended. */
export const keptOwner = (owner: string): string => KEPT + owner;

/** The reverse of {@link keptOwner}: the owner of the grant that has ended. Undefined if the key is not kept. */
export const releasedOwner = (owner: string): string | undefined =>
  owner.startsWith(KEPT) ? owner.slice(KEPT.length) : undefined;

/** Whether the store is an {@link ExactLeaseStore}. */
export function isExact(store: LeaseStore): store is ExactLeaseStore {
  return typeof (store as Partial<ExactLeaseStore>).keep === 'function';
}

/** Details of a grant, which a store may fill in. */
export interface GrantDetails {
  /**
   * One value per granted key, in the order of the keys: whether the key's last lease ended without a
   * release. If the owner already held the key, the value is that of the owner's last grant. A value is
   * undefined if the store does not know it.
   */
  abandoned?: readonly (boolean | undefined)[] | undefined;
}

/**
 * A store that reports whether the last holder of a key released the key. If a store has `takeBack`, managers
 * pass `details`, and use `takeBack` to end a grant that its holder did not release. With any other store,
 * `lease.abandoned` is undefined.
 */
export interface AbandonmentLeaseStore extends ExactLeaseStore {
  /**
   * If the lease is granted, sets `details.abandoned` before the promise resolves. The last parameter of
   * `tryAcquireAll` has the same purpose.
   */
  tryAcquire(
    key: string,
    owner: string,
    ttl: number,
    info?: string,
    details?: GrantDetails,
  ): Promise<FencingToken | undefined>;
  /**
   * Frees the key of a grant that its holder did not release. In all other respects, this is like `release`.
   * The next grant of the key is marked as abandoned if this grant was used, or if this grant was itself
   * marked so. A key that `keep` has kept, and the grant of a group of readers, never count as used.
   */
  takeBack(key: string, owner: string, token: FencingToken, wasUsed: boolean): Promise<boolean>;
}

/** Whether the store is an {@link AbandonmentLeaseStore}. */
export function reportsAbandonment(store: LeaseStore): store is AbandonmentLeaseStore {
  return typeof (store as Partial<AbandonmentLeaseStore>).takeBack === 'function';
}

/**
 * A store that reports the release of a key, including releases by other threads or processes. A manager with
 * a waiter for the key then retries at once.
 */
export interface WakingLeaseStore extends LeaseStore {
  /**
   * Calls `listener` when the key may have become free. The returned function stops these calls. The store
   * may miss releases, and need not call every listener, because waiters also poll.
   */
  onRelease(key: string, listener: () => void): () => void;
}

/**
 * The maximum length of an `info` text, in bytes of UTF-8. This length is enough for the names of a host and
 * a process and for a progress report, and such a text costs a store little.
 */
const MAX_INFO = 1024;

/**
 * Describes how another thread opens the same store. The thread imports `module`, and calls the function that
 * the module exports as `name`, with the argument `options`. The function returns a store with a separate
 * connection, or a promise of such a store.
 */
export interface LeaseStoreSource {
  /** The URL of the module, or a name that this package can import. */
  readonly module: string | HostUrl;
  /** The name of the exported function; `default` for the default export. */
  readonly name: string;
  /** The argument of the function. It must be structured-cloneable. */
  readonly options: unknown;
}

/**
 * A store that another thread can open again, to renew leases while the event loop of their holder is
 * blocked.
 */
export interface ReopenableLeaseStore extends LeaseStore {
  /** Describes how another thread opens this store. Undefined if no other thread can open it. */
  readonly source: LeaseStoreSource | undefined;
}

/** A store that can also be inspected synchronously, so that an error message can name the holder. */
export interface PromptLeaseStore extends LeaseStore {
  inspectNow(key: string): LeaseState | undefined;
}

/** Returns the store's `inspectNow`. Undefined if the store can be inspected only asynchronously. */
export function inspectingNow(store: LeaseStore): PromptLeaseStore['inspectNow'] | undefined {
  const prompt = store as Partial<PromptLeaseStore>;
  return typeof prompt.inspectNow === 'function' ? (key) => prompt.inspectNow!(key) : undefined;
}

/** Checks the store's `source` and returns it. Undefined if no other thread can open the store. */
export function sourceOf(store: LeaseStore): LeaseStoreSource | undefined {
  const source: unknown = (store as Partial<ReopenableLeaseStore>).source;
  if (source === undefined) return undefined;
  const { module, name } = (source ?? {}) as Partial<LeaseStoreSource>;
  const complete = (typeof module === 'string' || module instanceof URL) && typeof name === 'string';
  if (!complete) throw invalidArgType('options.store.source', 'an object with module and name', source);
  return source as LeaseStoreSource;
}

/**
 * The longest TTL, in milliseconds: 139 years. The current time plus this TTL fits the clock of every store.
 */
export const MAX_TTL = 2 ** 42;

export function checkKey(key: unknown): string {
  return checkNonEmpty(key, 'key');
}

export function checkOwner(owner: unknown): string {
  return checkNonEmpty(owner, 'owner');
}

export function checkNonEmpty(value: unknown, name: string): string {
  if (typeof value !== 'string') throw invalidArgType(name, 'a string', value);
  if (value === '') throw outOfRange(name, 'a string of at least one character', value);
  return value;
}

export function checkTtl(ttl: unknown, name = 'ttl'): number {
  if (typeof ttl !== 'number') throw invalidArgType(name, 'a number', ttl);
  if (!Number.isInteger(ttl) || ttl < 1 || ttl > MAX_TTL) {
    throw outOfRange(name, `a whole number of milliseconds from 1 to ${MAX_TTL}`, ttl);
  }
  return ttl;
}

const MOST_TOKEN = 2n ** 63n - 1n;

/**
 * Checks a fencing token. The tokens of this package's stores fit a signed 64-bit integer, which is a type
 * that databases support.
 */
export function checkToken(token: unknown): FencingToken {
  if (typeof token !== 'bigint') throw invalidArgType('token', 'a bigint', token);
  if (token < 0n || token > MOST_TOKEN) throw outOfRange('token', 'a bigint from 0 to 2^63 - 1', token);
  return token;
}

/** Checks the text that a holder stores with its lease. It may be empty. */
export function checkInfo(info: unknown, name = 'info'): string {
  if (typeof info !== 'string') throw invalidArgType(name, 'a string', info);
  if (info.length > MAX_INFO || Buffer.byteLength(info) > MAX_INFO) {
    throw outOfRange(name, `a string of at most ${MAX_INFO} bytes in UTF-8`, info);
  }
  return info;
}

export function checkClock(clock: unknown): Clock {
  if (typeof clock !== 'object' || clock === null || typeof (clock as Partial<Clock>).now !== 'function') {
    throw invalidArgType('options.clock', 'an object with a function now()', clock);
  }
  return clock as Clock;
}

/** Reads the clock. Throws if the result is not a number, or so large that adding a TTL would overflow. */
export function readClock(clock: Clock): number {
  const now: unknown = clock.now();
  if (typeof now !== 'number') throw invalidArgType('clock.now()', 'a number', now);
  if (!(Math.abs(now) <= MAX_TTL)) {
    throw outOfRange('clock.now()', `a number of milliseconds from -${MAX_TTL} to ${MAX_TTL}`, now);
  }
  return now;
}

/**
 * Calls `listener` each time the clock is set, if the clock is an {@link AdvancingClock}. The returned
 * function stops these calls.
 */
export function onAdvance(clock: Clock | undefined, listener: () => void): () => void {
  const advancing = clock as Partial<AdvancingClock> | undefined;
  return typeof advancing?.onAdvance === 'function' ? advancing.onAdvance(listener) : () => undefined;
}

export function reportsReleases(store: LeaseStore): store is WakingLeaseStore {
  return typeof (store as Partial<WakingLeaseStore>).onRelease === 'function';
}
