import { invalidArgType, outOfRange } from '../../common/errors.js';

/** Strictly increases from holder to holder of a key, across release, expiry and crash. */
export type FencingToken = bigint;

export interface Clock {
  /** Milliseconds; must never go backwards. */
  now(): number;
}

/** A clock that does not run by itself tells those who wait for it when it has been set. */
export interface AdvancingClock extends Clock {
  /** Calls `listener` after each change, until the function it returns is called. */
  onAdvance(listener: () => void): () => void;
}

/** What a store knows of a lease that is held. */
export interface LeaseState {
  owner: string;
  token: FencingToken;
  /** Milliseconds until it expires, by the store's clock. */
  remaining: number;
}

/**
 * Where leases live. Contention is a result, never an error; only a failing backend rejects.
 *
 * Keys and owners are non-empty strings, times to live are whole milliseconds from 1 to {@link MAX_TTL}; anything
 * else is refused with a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE), before anything is asked.
 * A lease is held until its time is over, that moment excluded. `leaseStoreContract` of `stripelock/testing` tells all
 * that a store must do.
 */
export interface LeaseStore {
  /**
   * Atomically: if key is free, expired, or held by this same owner, hold it for ttl and return its token, which is
   * new in each of these cases. Else undefined.
   */
  tryAcquire(key: string, owner: string, ttl: number): Promise<FencingToken | undefined>;
  /** Extend, to ttl from now, only if owner still holds key. The token stays. */
  renew(key: string, owner: string, ttl: number): Promise<boolean>;
  /** Compare-and-delete: free key only if owner still holds it. */
  release(key: string, owner: string): Promise<boolean>;
  /** Undefined where nobody holds the key. */
  inspect(key: string): Promise<LeaseState | undefined>;
  close?(): Promise<void>;
}

/** A store that hears of releases elsewhere. Managers that wait for a key then ask again at once. */
export interface WakingLeaseStore extends LeaseStore {
  /**
   * Calls `listener` when the key may have become free, until the function it returns is called. Not for every such
   * moment, and not each listener: who waits goes on asking by itself, too.
   */
  onRelease(key: string, listener: () => void): () => void;
}

/** Milliseconds, 139 years: the sum of a time and such a length of time fits every store's clock. */
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

export function checkClock(clock: unknown): Clock {
  if (typeof clock !== 'object' || clock === null || typeof (clock as Partial<Clock>).now !== 'function') {
    throw invalidArgType('options.clock', 'an object with a function now()', clock);
  }
  return clock as Clock;
}

/** The clock's time; refuses what is no time, and what a TTL could overflow. */
export function readClock(clock: Clock): number {
  const now: unknown = clock.now();
  if (typeof now !== 'number') throw invalidArgType('clock.now()', 'a number', now);
  if (!(Math.abs(now) <= MAX_TTL)) {
    throw outOfRange('clock.now()', `a number of milliseconds from -${MAX_TTL} to ${MAX_TTL}`, now);
  }
  return now;
}

/** Calls `listener` when the clock was set, if it is one that can tell. Returns how to end it. */
export function onAdvance(clock: Clock | undefined, listener: () => void): () => void {
  const advancing = clock as Partial<AdvancingClock> | undefined;
  return typeof advancing?.onAdvance === 'function' ? advancing.onAdvance(listener) : () => undefined;
}

/** Calls `listener` when the key may have become free. Returns how to end it; undefined if the store cannot tell. */
export function onRelease(store: LeaseStore, key: string, listener: () => void): (() => void) | undefined {
  const waking = store as Partial<WakingLeaseStore>;
  return typeof waking.onRelease === 'function' ? waking.onRelease(key, listener) : undefined;
}
