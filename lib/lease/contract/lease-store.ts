import { invalidArgType, outOfRange } from '../../common/errors.js';
import type { HostUrl } from '../../common/types.js';

/**
 * A number that rises with each grant of a key, across releases, expiries and crashes. So a resource can
 * refuse writes with a lower token.
 */
export type FencingToken = bigint;

/** A clock that the caller provides, mainly for tests. */
export interface Clock {
  /** The current time in milliseconds. It must never go backwards. */
  now(): number;
}

/** A clock that moves only when code sets it, and that notifies listeners when it is set. */
export interface AdvancingClock extends Clock {
  /** Calls `listener` each time the clock is set. The returned function stops these calls. */
  onAdvance(listener: () => void): () => void;
}

/** The state of a held lease, as its store reports it. */
export interface LeaseState {
  /** The owner that was passed to `tryAcquire`. */
  owner: string;
  /** The token of the grant. */
  token: FencingToken;
  /** Milliseconds until the lease expires, by the store's clock. */
  remaining: number;
}

/** The state of a held lease, in a store that keeps a text (its info) with each lease. */
export interface InfoLeaseState extends LeaseState {
  /** The text that the holder stored with the lease. Absent if there is none. */
  info?: string;
}

/**
 * A store of leases. If another owner holds a key, the store refuses it; that is a result, not an error.
 * Operations reject only if the backend fails or an argument is bad.
 *
 * Keys and owners are non-empty strings. TTLs are whole milliseconds from 1 to 2^42. For any other value, an
 * operation rejects with a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) before it sends
 * a request. A lease is held until the time at which it expires; at exactly that time it is no longer held.
 * `leaseStoreContract` of `stripelock/testing` tests everything that a store must do.
 *
 * A request may reach a server twice. It may also arrive late, after newer requests that used other
 * connections. It must not undo a newer request:
 *
 * - A renewal never shortens a lease. Only the end of a grant may do that: see {@link ExactLeaseStore.keep}.
 * - A release names the grant that it ends, by its token, if the store has {@link ExactLeaseStore.release}.
 *   In other stores, a late release can free a later lease of the same owner. An owner can have several
 *   leases in turn if its manager has the option `holder` or `reentrant`.
 * - If the store limits the time of an attempt, and the grant comes after that time, the store releases this
 *   grant by its token. It must not release by owner alone, because a later attempt of the same owner may
 *   hold the key.
 */
export interface LeaseStore {
  /**
   * Grants the key to the owner for `ttl` milliseconds if the key is free, expired, or held by this same
   * owner. The result is the token of the grant, which is new in each of these cases, or undefined if another
   * owner holds the key. The operation is atomic.
   */
  tryAcquire(key: string, owner: string, ttl: number): Promise<FencingToken | undefined>;
  /**
   * Extends the lease to `ttl` milliseconds from now, if the owner still holds the key. Never shortens it,
   * and keeps its token. True if the owner holds the key.
   */
  renew(key: string, owner: string, ttl: number): Promise<boolean>;
  /** Frees the key if the owner still holds it, atomically. True if it was freed. */
  release(key: string, owner: string): Promise<boolean>;
  /** The state of the key's lease; undefined if the key is free. */
  inspect(key: string): Promise<LeaseState | undefined>;
  /** Closes the resources that the store opened itself, such as connections. Managers never call this. */
  close?(): Promise<void>;
}

/** A store that has a `close` method. Managers never call it. */
export interface ClosableLeaseStore extends LeaseStore {
  /** Closes the resources that the store opened itself, such as connections. */
  close(): Promise<void>;
}

/** A store that keeps a small text (its info) with each lease. `inspect` shows it. */
export interface InfoLeaseStore extends LeaseStore {
  /**
   * As {@link LeaseStore.tryAcquire}. A grant stores `info`, at most 1024 bytes in UTF-8, with the lease. A
   * grant without `info` removes the info of an earlier grant.
   */
  tryAcquire(key: string, owner: string, ttl: number, info?: string): Promise<FencingToken | undefined>;
  /**
   * As {@link LeaseStore.renew}. If `info` is given, it replaces the lease's info. An empty `info` removes
   * it.
   */
  renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean>;
  /** The state of the key's lease; undefined if the key is free. */
  inspect(key: string): Promise<InfoLeaseState | undefined>;
}

/**
 * A store in which a release can name one grant. If a store has `keep`, managers pass tokens to `release`. To
 * other stores, they pass no tokens. To release a lease there before its `minHold` has passed, they renew it
 * for the rest of that time. A renewal never shortens a lease, so the key may then stay taken for the rest of
 * its TTL.
 */
export interface ExactLeaseStore extends LeaseStore {
  /** As {@link LeaseStore.release}. With a token, frees the key only if its current grant has this token. */
  release(key: string, owner: string, token?: FencingToken): Promise<boolean>;
  /**
   * Ends the grant with this token. The key stays taken for `ttl` milliseconds from now, and is then free,
   * even if the lease would have lasted longer. True if the owner held this grant.
   */
  keep(key: string, owner: string, ttl: number, token: FencingToken): Promise<boolean>;
}

/** Whether a release in this store can name a grant by its token. */
export function isExact(store: LeaseStore): store is ExactLeaseStore {
  return typeof (store as Partial<ExactLeaseStore>).keep === 'function';
}

/**
 * A store that reports releases of keys, also by other threads or processes. Waiting managers then retry at
 * once.
 */
export interface WakingLeaseStore extends LeaseStore {
  /**
   * Calls `listener` when the key may have become free. The returned function stops these calls. The store
   * may miss releases, and need not call every listener, because waiters also poll.
   */
  onRelease(key: string, listener: () => void): () => void;
}

/**
 * The maximum length of an info, in bytes of UTF-8. This is enough for the names of a host and a process and
 * for progress, and costs a store little.
 */
const MAX_INFO = 1024;

/**
 * Describes how another thread opens the same store. The thread imports `module`, and calls the function that
 * the module exports as `name`, with `options`. The function returns a store with a separate connection, or a
 * promise of such a store.
 */
export interface LeaseStoreSource {
  /** The URL of the module, or a name that the renewing thread of this package can import. */
  readonly module: string | HostUrl;
  /** The name of the exported function; `default` for the default export. */
  readonly name: string;
  /** The argument of the function. It must be structured-cloneable. */
  readonly options: unknown;
}

/** A store whose leases another thread can renew while the holder's event loop is blocked. */
export interface ReopenableLeaseStore extends LeaseStore {
  /** Describes how another thread opens this store. Undefined if no other thread can open it. */
  readonly source: LeaseStoreSource | undefined;
}

/** A store that can also be inspected synchronously, so that an error message can name the holder. */
export interface PromptLeaseStore extends LeaseStore {
  inspectNow(key: string): LeaseState | undefined;
}

/** The store's `inspectNow`. Undefined if the store can be inspected only asynchronously. */
export function inspectingNow(store: LeaseStore): PromptLeaseStore['inspectNow'] | undefined {
  const prompt = store as Partial<PromptLeaseStore>;
  return typeof prompt.inspectNow === 'function' ? (key) => prompt.inspectNow!(key) : undefined;
}

/** The store's `source`, checked. Undefined if no other thread can open the store. */
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
 * Checks a fencing token. Tokens of this package's stores fit a signed 64-bit integer, a type that databases
 * have.
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
 * Calls `listener` each time the clock is set, if the clock reports that. The returned function stops these
 * calls.
 */
export function onAdvance(clock: Clock | undefined, listener: () => void): () => void {
  const advancing = clock as Partial<AdvancingClock> | undefined;
  return typeof advancing?.onAdvance === 'function' ? advancing.onAdvance(listener) : () => undefined;
}

export function reportsReleases(store: LeaseStore): store is WakingLeaseStore {
  return typeof (store as Partial<WakingLeaseStore>).onRelease === 'function';
}
