import { invalidArgType, outOfRange } from '../../common/errors.js';
import type { HostUrl } from '../../common/types.js';

/** Strictly increases from holder to holder of a key, across release, expiry and crash. */
export type FencingToken = bigint;

/** A clock of the caller's own, mainly for tests. */
export interface Clock {
  /** Milliseconds; must never go backwards. */
  now(): number;
}

/** A clock that does not run by itself, and reports when it was set. */
export interface AdvancingClock extends Clock {
  /** Calls `listener` after each change, until the returned function is called. */
  onAdvance(listener: () => void): () => void;
}

/** A held lease, as its store shows it. */
export interface LeaseState {
  /** The owner that was passed to `tryAcquire`. */
  owner: string;
  /** The token of the grant. */
  token: FencingToken;
  /** Milliseconds until it expires, by the store's clock. */
  remaining: number;
}

/** The same in a store that keeps infos. */
export interface InfoLeaseState extends LeaseState {
  /** The holder's text about itself; absent without one. */
  info?: string;
}

/**
 * Where leases live. Contention is a result, never an error; only a failing backend rejects.
 *
 * Keys and owners are non-empty strings, times to live are whole milliseconds from 1 to 2^42. Anything else is
 * refused with a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE), before anything is asked. A
 * lease is held until it expires, that moment excluded. `leaseStoreContract` of `stripelock/testing` tests all that a
 * store must do.
 *
 * A request may reach a server late, on another connection than the requests after it, or twice. It must not undo a newer
 * one:
 *
 * - A renewal never shortens a lease. Only the end of a lease may do that: see {@link ExactLeaseStore.keep}.
 * - A release names the grant that it ends, by its token, where the store has {@link ExactLeaseStore.release}. Otherwise a
 *   late release frees the next lease of an owner who has several in turn, as managers with `holder` or `reentrant` do.
 * - If the store limits the time of an attempt, and the attempt is granted after that, the store gives this grant back, by
 *   its token. Another attempt of the same owner may hold the key by then.
 */
export interface LeaseStore {
  /**
   * Atomically: if key is free, expired, or held by this same owner, hold it for ttl milliseconds and return its token,
   * which is new in each of these cases. Otherwise return undefined.
   */
  tryAcquire(key: string, owner: string, ttl: number): Promise<FencingToken | undefined>;
  /**
   * Extend to ttl milliseconds from now, only if owner still holds key. A lease that lasts longer keeps its time. The token
   * stays. True if owner holds key.
   */
  renew(key: string, owner: string, ttl: number): Promise<boolean>;
  /** Compare-and-delete: free key only if owner still holds it. True if freed. */
  release(key: string, owner: string): Promise<boolean>;
  /** Undefined if the key is free. */
  inspect(key: string): Promise<LeaseState | undefined>;
  /** Closes what the store has opened itself. Managers never call it. */
  close?(): Promise<void>;
}

/** A store that has something to close. A manager never does that. */
export interface ClosableLeaseStore extends LeaseStore {
  /** Closes what the store has opened itself. */
  close(): Promise<void>;
}

/** A store that keeps a small text with each lease, which `inspect` shows. */
export interface InfoLeaseStore extends LeaseStore {
  /** Keeps `info`, at most 1024 bytes in UTF-8, with what it grants. An earlier one goes, also without a new one. */
  tryAcquire(key: string, owner: string, ttl: number, info?: string): Promise<FencingToken | undefined>;
  /** Replaces the info by a new one, if that is given, of what it extends. An empty one removes it. */
  renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean>;
  /** Undefined if the key is free. */
  inspect(key: string): Promise<InfoLeaseState | undefined>;
}

/**
 * A store whose releases can name one grant. A manager that finds `keep` passes tokens. Otherwise it passes none, and ends
 * a lease before its `minHold` by `renew`. As that shortens no lease, the key may stay taken for the rest of its TTL.
 */
export interface ExactLeaseStore extends LeaseStore {
  /** With a token, frees only the grant that has it. */
  release(key: string, owner: string, token?: FencingToken): Promise<boolean>;
  /**
   * Ends the grant that has this token, but leaves the key taken for ttl milliseconds from now, also if the lease would last
   * longer. True if owner held that grant.
   */
  keep(key: string, owner: string, ttl: number, token: FencingToken): Promise<boolean>;
}

/** Whether releases in this store can name a grant. */
export function isExact(store: LeaseStore): store is ExactLeaseStore {
  return typeof (store as Partial<ExactLeaseStore>).keep === 'function';
}

/** A store that is notified of releases elsewhere. Waiting managers then retry at once. */
export interface WakingLeaseStore extends LeaseStore {
  /**
   * Calls `listener` when the key may have become free, until the returned function is called. It may miss releases,
   * and need not call every listener: waiters also keep asking by themselves.
   */
  onRelease(key: string, listener: () => void): () => void;
}

/** Bytes of UTF-8: enough for a host, a process and a progress, and little for a store. */
const MAX_INFO = 1024;

/**
 * How another thread opens a store again: it imports the module, and calls a function that the module exports with the
 * options. That function returns a store, or a promise of one, with a separate connection.
 */
export interface LeaseStoreSource {
  /** The URL of the module, or its name as the renewing thread of this package can import it. */
  readonly module: string | HostUrl;
  /** The name of the exported function: `default` for the default export. */
  readonly name: string;
  /** Can be cloned to another thread. */
  readonly options: unknown;
}

/** A store whose leases another thread can renew while the event loop of their holder is blocked. */
export interface ReopenableLeaseStore extends LeaseStore {
  /** Undefined if this particular store cannot be opened again. */
  readonly source: LeaseStoreSource | undefined;
}

/** A store that can also answer without a promise. Messages of errors then name the holder. */
export interface PromptLeaseStore extends LeaseStore {
  inspectNow(key: string): LeaseState | undefined;
}

/** Its `inspectNow`; undefined if the store must be asked with a promise. */
export function inspectingNow(store: LeaseStore): PromptLeaseStore['inspectNow'] | undefined {
  const prompt = store as Partial<PromptLeaseStore>;
  return typeof prompt.inspectNow === 'function' ? (key) => prompt.inspectNow!(key) : undefined;
}

/** Undefined if the store cannot be opened by another thread. */
export function sourceOf(store: LeaseStore): LeaseStoreSource | undefined {
  const source: unknown = (store as Partial<ReopenableLeaseStore>).source;
  if (source === undefined) return undefined;
  const { module, name } = (source ?? {}) as Partial<LeaseStoreSource>;
  const complete = (typeof module === 'string' || module instanceof URL) && typeof name === 'string';
  if (!complete) throw invalidArgType('options.store.source', 'an object with module and name', source);
  return source as LeaseStoreSource;
}

/** Milliseconds, 139 years: a time plus this much fits every store's clock. */
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

/** Tokens of our stores fit a signed integer of 64 bits, which databases have. */
export function checkToken(token: unknown): FencingToken {
  if (typeof token !== 'bigint') throw invalidArgType('token', 'a bigint', token);
  if (token < 0n || token > MOST_TOKEN) throw outOfRange('token', 'a bigint from 0 to 2^63 - 1', token);
  return token;
}

/** The text that a holder keeps with its lease. Empty for none. */
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

/** The clock's time. Throws if it is not a time, or overflows when a TTL is added. */
export function readClock(clock: Clock): number {
  const now: unknown = clock.now();
  if (typeof now !== 'number') throw invalidArgType('clock.now()', 'a number', now);
  if (!(Math.abs(now) <= MAX_TTL)) {
    throw outOfRange('clock.now()', `a number of milliseconds from -${MAX_TTL} to ${MAX_TTL}`, now);
  }
  return now;
}

/** Calls `listener` when the clock was set, if the clock reports that. Returns a function that ends it. */
export function onAdvance(clock: Clock | undefined, listener: () => void): () => void {
  const advancing = clock as Partial<AdvancingClock> | undefined;
  return typeof advancing?.onAdvance === 'function' ? advancing.onAdvance(listener) : () => undefined;
}

export function reportsReleases(store: LeaseStore): store is WakingLeaseStore {
  return typeof (store as Partial<WakingLeaseStore>).onRelease === 'function';
}
