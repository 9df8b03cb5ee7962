import {
  checkBoolean,
  checkNames,
  checkOptionsObject,
  checkSignal,
  checkTimeout,
  DEFAULT_TIMEOUT,
  type Names,
} from '../../common/checks.js';
import { invalidArgType, outOfRange } from '../../common/errors.js';
import type { HostSignal } from '../../common/types.js';
import {
  checkExtras,
  checkPositive,
  type LeaseExtras,
  type LeaseWarning,
  type LeaseWarningOptions,
} from './extras.js';
import { checkClock, checkNonEmpty, checkTtl, type Clock, type LeaseStore } from './lease-store.js';
import {
  BY_DEFAULT,
  checkLimit,
  checkRenew,
  everyOf,
  type LeaseRenewOptions,
  type Renewals,
} from './renew-options.js';

export type { LeaseExtras, LeaseWarning, LeaseWarningOptions } from './extras.js';

/** Milliseconds. */
const DEFAULT_TTL = 30_000;
/** Of the ttl, before the local deadline. */
const WARNING_PART = 3;
const DEFAULT_BACKOFF = { initial: 10, max: 1000, jitter: 0.5 };

const NO_EXTRAS: LeaseExtras = {};

const TERMS = { ttl: true, renew: true, maxHold: true, warning: true, minHold: true, info: true } as const;
const LEASE: Names<WithLeaseOptions> = { ...TERMS, timeout: true, signal: true, ifAvailable: true };
const MANAGER: Names<WarningLeaseManagerOptions> = {
  ...TERMS,
  store: true,
  holder: true,
  reentrant: true,
  backoff: true,
  clock: true,
};
const BACKOFF: Names<Backoff> = { initial: true, max: true, jitter: true };
const DEFAULT_WAIT = { timeout: DEFAULT_TIMEOUT, signal: undefined };

/** How long a lease lasts. */
export interface LeaseOptions {
  /** Milliseconds, whole, 1 … 2^42. Default: the manager's. */
  ttl?: number;
  /** Renew automatically while held: every ttl/3, or every `every` milliseconds, fewer than ttl. Default: the manager's. */
  renew?:
    | boolean
    | {
        /** Milliseconds between renewals, fewer than ttl. Default: ttl/3. */
        every?: number;
      };
  /** Milliseconds after which no renewal is sent any more. The lease ends at most one ttl later. Default: the manager's. */
  maxHold?: number;
}

/** For one attempt. Default of each: the manager's. */
export interface TryAcquireLeaseOptions extends Omit<LeaseOptions, 'renew'>, LeaseExtras {
  /**
   * Renew automatically while held: every ttl/3, or every `every` milliseconds, fewer than ttl; with `background` even
   * while the event loop is blocked. Default: the manager's.
   */
  renew?: boolean | LeaseRenewOptions;
}

/** For a manager, and the defaults of its leases. */
export interface LeaseManagerOptions {
  /** Default: a new `MemoryLeaseStore`, on the manager's clock if that is given. */
  store?: LeaseStore;
  /** Milliseconds, whole, 1 … 2^42. Default 30_000. */
  ttl?: number;
  /** Renew automatically while held: every ttl/3, or every `every` milliseconds, fewer than ttl. Default true. */
  renew?:
    | boolean
    | {
        /** Milliseconds between renewals, fewer than ttl. Default: ttl/3. */
        every?: number;
      };
  /** Milliseconds after which renewing stops, so that a holder that hangs still loses the lease. Default Infinity. */
  maxHold?: number;
  /**
   * Stable identity: the same holder may take its own live lease again (after a crash). Default: unique per
   * acquisition. A name belongs to one living manager at a time: the store cannot distinguish two of the same name.
   */
  holder?: string;
  /** Let acquisitions of one key through this manager share one lease, released by the last of them. Default false. */
  reentrant?: boolean;
  /** Pauses between attempts, in milliseconds: initial, doubling up to max, shortened by up to jitter (0 … 1). Default 10, 1000, 0.5. */
  backoff?: {
    /** Milliseconds before the second attempt. Default 10. */
    initial?: number;
    /** The longest pause, in milliseconds; not below initial. Default 1000. */
    max?: number;
    /** How much of a pause chance may take away, 0 … 1. Default 0.5. */
    jitter?: number;
  };
  /** Judges local deadlines, renewal and maxHold. Default: `performance.now()`. */
  clock?: Clock;
}

/** For a manager, with more. */
export interface WarningLeaseManagerOptions extends Omit<LeaseManagerOptions, 'renew'>, LeaseExtras {
  /**
   * Renew automatically while held: every ttl/3, or every `every` milliseconds, fewer than ttl; with `background` even
   * while the event loop is blocked. Default true.
   */
  renew?: boolean | LeaseRenewOptions;
}

/** For an acquisition that waits. */
export interface AcquireLeaseOptions extends TryAcquireLeaseOptions {
  /** Milliseconds for the whole acquisition, in real time. 0 makes one attempt, Infinity waits forever. Default 5000. */
  timeout?: number;
  /** Aborting ends the wait and rejects with signal.reason. */
  signal?: HostSignal;
}

/** For `withLease`. */
export interface WithLeaseOptions extends AcquireLeaseOptions {
  /** Do not wait: resolve to undefined, without calling the function, when the lease is taken. Default false. */
  ifAvailable?: boolean;
}

/** Pauses between attempts, checked. */
export interface Backoff {
  readonly initial: number;
  readonly max: number;
  readonly jitter: number;
}

/** The terms of one lease, in milliseconds. */
export interface LeaseTerms {
  readonly ttl: number;
  /** Between renewals; Infinity for none. */
  readonly every: number;
  /** Whether it is renewed while the event loop is blocked, too. */
  readonly background: boolean;
  readonly maxHold: number;
  /** From the grant until the first renewal, or until the end if there is no renewal before. */
  readonly firstLook: number;
  readonly warning: { readonly before: number; readonly call: (warning: LeaseWarning) => void } | undefined;
  /** From the grant, for which the store keeps the key even if it is released. 0 for none. */
  readonly minHold: number;
  readonly info: string | undefined;
}

/** The options of a manager, checked. */
export interface ManagerSettings {
  readonly store: LeaseStore | undefined;
  readonly ttl: number;
  readonly renew: Renewals;
  readonly maxHold: number;
  readonly extras: LeaseExtras;
  readonly holder: string | undefined;
  readonly reentrant: boolean;
  readonly backoff: Backoff;
  readonly clock: Clock | undefined;
  /** For a lease whose options say nothing. */
  readonly terms: LeaseTerms;
}

/** Checks the options, and fills in the defaults. */
export function resolveManagerOptions(options: WarningLeaseManagerOptions | undefined): ManagerSettings {
  checkOptionsObject(options, MANAGER);
  const { store, ttl, renew, maxHold, holder, reentrant, backoff, clock } = options ?? {};
  const settings = {
    store: store === undefined ? undefined : checkStore(store),
    ttl: ttl === undefined ? DEFAULT_TTL : checkTtl(ttl, 'options.ttl'),
    renew: renew === undefined ? BY_DEFAULT : checkRenew(renew),
    maxHold: maxHold === undefined ? Infinity : checkTimeout(maxHold, 'options.maxHold'),
    extras: checkExtras(options ?? {}, NO_EXTRAS),
    holder: holder === undefined ? undefined : checkNonEmpty(holder, 'options.holder'),
    reentrant: reentrant === undefined ? false : checkBoolean(reentrant, 'options.reentrant'),
    backoff: backoff === undefined ? DEFAULT_BACKOFF : checkBackoff(backoff),
    clock: clock === undefined ? undefined : checkClock(clock),
  };
  return {
    ...settings,
    terms: makeTerms(settings.ttl, settings.renew, settings.maxHold, settings.extras),
  };
}

/** The terms of one lease. */
export function resolveTerms(
  manager: ManagerSettings,
  options: TryAcquireLeaseOptions | undefined,
): LeaseTerms {
  if (options === undefined) return manager.terms;
  checkOptionsObject(options, LEASE);
  const { ttl, renew, maxHold } = options;
  const extras = checkExtras(options, manager.extras);
  if (ttl === undefined && renew === undefined && maxHold === undefined && extras === manager.extras) {
    return manager.terms;
  }
  const own = ttl === undefined ? manager.ttl : checkTtl(ttl, 'options.ttl');
  return makeTerms(
    own,
    renew === undefined ? manager.renew : checkRenew(renew),
    maxHold === undefined ? manager.maxHold : checkTimeout(maxHold, 'options.maxHold'),
    extras,
  );
}

/** In one place, so that all terms have one shape for V8. */
function makeTerms(
  ttl: number,
  renew: Renewals,
  maxHold: number,
  { warning, minHold = 0, info }: LeaseExtras,
): LeaseTerms {
  const every = everyOf(renew, ttl);
  checkLimit(renew, maxHold);
  const firstLook = every < ttl && every < maxHold ? every : ttl;
  const { background } = renew;
  return { ttl, every, background, maxHold, firstLook, warning: warningOf(warning, ttl), minHold, info };
}

/** Checks the timeout and the signal of an acquisition. */
export function resolveWait(options: AcquireLeaseOptions | undefined): {
  timeout: number;
  signal: AbortSignal | undefined;
} {
  if (options === undefined) return DEFAULT_WAIT;
  const { timeout, signal } = options;
  return {
    timeout: timeout === undefined ? DEFAULT_TIMEOUT : checkTimeout(timeout, 'options.timeout'),
    signal: signal === undefined ? undefined : checkSignal(signal),
  };
}

function warningOf(warning: LeaseWarningOptions | undefined, ttl: number): LeaseTerms['warning'] {
  if (warning === undefined) return undefined;
  const { before = ttl / WARNING_PART, call } = warning;
  if (before < ttl) return { before, call };
  throw outOfRange('options.warning.before', `a number of milliseconds below the ttl, ${ttl}`, before);
}

function checkBackoff(backoff: unknown): Backoff {
  if (typeof backoff !== 'object' || backoff === null || Array.isArray(backoff)) {
    throw invalidArgType('options.backoff', 'an object', backoff);
  }
  checkNames(backoff, BACKOFF, 'options.backoff');
  const { initial, max, jitter } = { ...DEFAULT_BACKOFF, ...withoutUndefined(backoff) };
  checkPositive(initial, 'options.backoff.initial');
  checkPositive(max, 'options.backoff.max');
  if (typeof jitter !== 'number') throw invalidArgType('options.backoff.jitter', 'a number', jitter);
  if (!(jitter >= 0 && jitter <= 1))
    throw outOfRange('options.backoff.jitter', 'a number from 0 to 1', jitter);
  if (max < initial)
    throw outOfRange('options.backoff.max', `at least options.backoff.initial, ${initial}`, max);
  return { initial, max, jitter };
}

function withoutUndefined(object: object): object {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}

const OPERATIONS = ['tryAcquire', 'renew', 'release', 'inspect'] as const;

function checkStore(store: unknown): LeaseStore {
  const candidate = store as Partial<LeaseStore> | null;
  const complete =
    typeof candidate === 'object' &&
    candidate !== null &&
    OPERATIONS.every((operation) => typeof candidate[operation] === 'function');
  if (!complete) throw invalidArgType('options.store', `an object with ${OPERATIONS.join(', ')}`, store);
  return candidate as LeaseStore;
}
