import {
  checkBoolean,
  checkCount,
  checkFunction,
  checkOptionsObject,
  checkPart,
  checkSignal,
  checkTimeout,
  DEFAULT_TIMEOUT,
  type Names,
} from '../../common/checks.js';
import { invalidArgType, type LockError, outOfRange } from '../../common/errors.js';
import type { HostSignal } from '../../common/types.js';
import {
  checkClock,
  checkInfo,
  checkNonEmpty,
  checkTtl,
  type Clock,
  type LeaseStore,
  MAX_TTL,
} from './lease-store.js';
import { MAX_LIMIT } from './slots.js';

/** Milliseconds. */
const DEFAULT_TTL = 30_000;
/** The part of the ttl that is left, at the local deadline, when the warning comes. */
const WARNING_PART = 3;
const DEFAULT_BACKOFF = { initial: 10, max: 1000, jitter: 0.5 };

/** Two beats may fail before the lease is lost. */
const BEATS_PER_TTL = 3;
const BY_DEFAULT: Renewals = { every: undefined, background: false };
const DEFAULTS: Given = {
  ttl: DEFAULT_TTL,
  renew: BY_DEFAULT,
  maxHold: Infinity,
  warning: undefined,
  minHold: 0,
  info: undefined,
};

const TERMS = { ttl: true, renew: true, maxHold: true, warning: true, minHold: true, info: true } as const;
const TERM_NAMES = Object.keys(TERMS) as (keyof typeof TERMS)[];
const TRY_ACQUIRE: Names<TryAcquireLeaseOptions> = { ...TERMS, limit: true };
const ACQUIRE: Names<AcquireLeaseOptions> = { ...TRY_ACQUIRE, timeout: true, signal: true };
const WITH_LEASE: Names<WithLeaseOptions> = { ...ACQUIRE, ifAvailable: true };
const MANAGER: Names<WarningLeaseManagerOptions> = {
  ...TERMS,
  store: true,
  holder: true,
  reentrant: true,
  backoff: true,
  clock: true,
};
const BACKOFF: Names<Backoff> = { initial: true, max: true, jitter: true };
const DEFAULT_WAIT: Wait = { timeout: DEFAULT_TIMEOUT, signal: undefined };

/** How long a lease lasts. */
export interface LeaseOptions {
  /** Milliseconds, whole, 1 … 2^42. Default: the manager's. */
  ttl?: number;
  /** Renew automatically while held: every ttl/3, or every `every` milliseconds, fewer than ttl. Default: the manager's. */
  renew?: boolean | Pick<LeaseRenewOptions, 'every'>;
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
  /**
   * How many holders the key may have at once, 1 … 1000, over all processes that say the same: each has one of its slots,
   * see `Lease.slot`. Whoever gives a smaller limit looks only at the first slots. For one key. Default 1.
   */
  limit?: number;
}

/** For a manager, and the defaults of its leases. */
export interface LeaseManagerOptions {
  /** Default: a new `MemoryLeaseStore`, on the manager's clock if that is given. */
  store?: LeaseStore;
  /** Milliseconds, whole, 1 … 2^42. Default 30_000. */
  ttl?: number;
  /** Renew automatically while held: every ttl/3, or every `every` milliseconds, fewer than ttl. Default true. */
  renew?: boolean | Pick<LeaseRenewOptions, 'every'>;
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
  /**
   * Judges local deadlines, renewal and maxHold. Default: `performance.now()`, plus the time for which the machine was
   * suspended if the addon is loaded. With a `clock`, no lease can be renewed in the background.
   */
  clock?: Clock;
}

/** For `new LeaseManager(options)`. */
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

/** For `close` of a manager. */
export interface LeaseCloseOptions {
  /** Milliseconds, from 0 to Infinity, for which leases that are held are waited for. Default 0. */
  drain?: number;
}

const CLOSE: Names<LeaseCloseOptions> = { drain: true };

/** Milliseconds. */
export function resolveDrain(options: LeaseCloseOptions | undefined): number {
  checkOptionsObject(options, CLOSE);
  const drain = options?.drain;
  return drain === undefined ? 0 : checkTimeout(drain, 'options.drain');
}

/** For `withLease`; without `ifAvailable` for `acquire`; without `timeout` and `signal`, too, for `tryAcquire`. */
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
  readonly warning: { readonly before: number; readonly call: (warning: LeaseWarning) => void } | undefined;
  /** From the grant, for which the store keeps the key even if it is released. 0 for none. */
  readonly minHold: number;
  readonly info: string | undefined;
  /** How many holders the key may have at once. */
  readonly limit: number;
  /** Which of them has it, from 0. */
  readonly slot: number;
}

/** What leases were given, checked, before the terms that follow from it. */
interface Given extends Pick<LeaseTerms, 'ttl' | 'maxHold' | 'minHold' | 'info'> {
  readonly renew: Renewals;
  readonly warning: LeaseWarningOptions | undefined;
}

/** The options of a manager, checked. */
export interface ManagerSettings {
  readonly store: LeaseStore | undefined;
  readonly holder: string | undefined;
  readonly reentrant: boolean;
  readonly backoff: Backoff;
  readonly clock: Clock | undefined;
  /** For what the options of a lease do not say. */
  readonly given: Given;
  /** For a lease whose options say nothing. */
  readonly terms: LeaseTerms;
}

/** Checks the options, and fills in the defaults. */
export function resolveManagerOptions(options: WarningLeaseManagerOptions = {}): ManagerSettings {
  checkOptionsObject(options, MANAGER);
  const { store, holder, reentrant, backoff, clock } = options;
  const given = checkGiven(options, DEFAULTS);
  return {
    store: store === undefined ? undefined : checkStore(store),
    holder: holder === undefined ? undefined : checkNonEmpty(holder, 'options.holder'),
    reentrant: reentrant === undefined ? false : checkBoolean(reentrant, 'options.reentrant'),
    backoff: backoff === undefined ? DEFAULT_BACKOFF : checkBackoff(backoff),
    clock: clock === undefined ? undefined : checkClock(clock),
    given,
    terms: makeTerms(given),
  };
}

/** Throws for an option that the method does not have, and for what is not an object. */
export const checkLeaseOptions = {
  tryAcquire: (options: unknown): void => checkOptionsObject(options, TRY_ACQUIRE),
  acquire: (options: unknown): void => checkOptionsObject(options, ACQUIRE),
  withLease: (options: unknown): void => checkOptionsObject(options, WITH_LEASE),
};

/** The terms of one lease. `options`: of a method that has checked their names. */
export function resolveTerms(
  manager: ManagerSettings,
  options: TryAcquireLeaseOptions | undefined,
): LeaseTerms {
  if (options === undefined) return manager.terms;
  const saysNothing = TERM_NAMES.every((name) => options[name] === undefined);
  const terms = saysNothing ? manager.terms : makeTerms(checkGiven(options, manager.given));
  const { limit } = options;
  return limit === undefined ? terms : { ...terms, limit: checkCount(limit, 'options.limit', MAX_LIMIT) };
}

function checkGiven(options: TryAcquireLeaseOptions, defaults: Given): Given {
  const { ttl, renew, maxHold, warning, minHold, info } = options;
  return {
    ttl: ttl === undefined ? defaults.ttl : checkTtl(ttl, 'options.ttl'),
    renew: renew === undefined ? defaults.renew : checkRenew(renew),
    maxHold: maxHold === undefined ? defaults.maxHold : checkTimeout(maxHold, 'options.maxHold'),
    warning: warning === undefined ? defaults.warning : checkWarning(warning),
    minHold: minHold === undefined ? defaults.minHold : checkMinHold(minHold),
    info: info === undefined ? defaults.info : checkInfo(info, 'options.info'),
  };
}

function makeTerms({ ttl, renew, maxHold, warning, minHold, info }: Given): LeaseTerms {
  const { every = ttl / BEATS_PER_TTL, background } = renew;
  if (every >= ttl && every < Infinity) {
    throw outOfRange('options.renew.every', `a number of milliseconds below the ttl, ${ttl}`, every);
  }
  // Without a limit a thread that hangs for good would keep its leases for good.
  if (background && maxHold === Infinity) {
    throw outOfRange('options.maxHold', 'finite where options.renew.background is true', maxHold);
  }
  return {
    ttl,
    every,
    background,
    maxHold,
    warning: warningOf(warning, ttl),
    minHold,
    info,
    limit: 1,
    slot: 0,
  };
}

/** How long an acquisition waits at most. */
export interface Wait {
  /** Milliseconds. */
  readonly timeout: number;
  readonly signal: AbortSignal | undefined;
}

/** Checks the timeout and the signal of an acquisition. */
export function resolveWait(options: AcquireLeaseOptions | undefined): Wait {
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
  checkPart(backoff, BACKOFF, 'options.backoff');
  const { initial: first, max: longest, jitter: chance } = DEFAULT_BACKOFF;
  const { initial = first, max = longest, jitter = chance } = backoff as Partial<Backoff>;
  checkPositive(initial, 'options.backoff.initial');
  checkPositive(max, 'options.backoff.max');
  if (typeof jitter !== 'number') throw invalidArgType('options.backoff.jitter', 'a number', jitter);
  if (!(jitter >= 0 && jitter <= 1))
    throw outOfRange('options.backoff.jitter', 'a number from 0 to 1', jitter);
  if (max < initial)
    throw outOfRange('options.backoff.max', `at least options.backoff.initial, ${initial}`, max);
  return { initial, max, jitter };
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

/** Says that a lease is about to be lost; see {@link LeaseWarningOptions}. */
export interface LeaseWarning {
  /** The key of the lease. */
  readonly key: string;
  /** The token of the lease. */
  readonly token: bigint;
  /** The owner as the store knows it. */
  readonly holder: string;
  /** Milliseconds until the local deadline. */
  readonly remaining: number;
  /** The error of the last renewal; undefined if the store has not answered it yet. */
  readonly cause: LockError | undefined;
}

/** A warning before a lease is lost because renewals fail, for the option `warning`. */
export interface LeaseWarningOptions {
  /** Milliseconds before the local deadline, fewer than the ttl. Default: ttl/3. */
  before?: number;
  /**
   * Called once each time that renewals fail, or stay unanswered, until `before` milliseconds before the deadline. A
   * timer calls it: later if the event loop is blocked, and not at all after the deadline. What it throws is not
   * caught.
   */
  call: (warning: LeaseWarning) => void;
}

/** What may also be said of a lease, or of all leases of a manager. */
export interface LeaseExtras {
  /** Have a function called before the lease is lost because renewals fail. Default for a manager: none. */
  warning?: LeaseWarningOptions;
  /**
   * Milliseconds, 0 … 2^42: nobody else is granted the key during this time after the grant, even if it is released before. A
   * release then leaves the rest of that time to the store. Default for a manager: 0.
   */
  minHold?: number;
  /**
   * Kept by the store, for those who `inspect` the key: a text of at most 1024 bytes in UTF-8, such as a host and a
   * process. See `Lease.setInfo`. Default for a manager: none.
   */
  info?: string;
}

function checkMinHold(minHold: unknown): number {
  if (typeof minHold !== 'number') throw invalidArgType('options.minHold', 'a number', minHold);
  if (minHold >= 0 && minHold <= MAX_TTL) return minHold;
  throw outOfRange('options.minHold', `a number of milliseconds from 0 to ${MAX_TTL}`, minHold);
}

const WARNING: Names<LeaseWarningOptions> = { before: true, call: true };

function checkWarning(warning: unknown): LeaseWarningOptions {
  checkPart(warning, WARNING, 'options.warning');
  const { before, call } = warning as { before?: unknown; call?: unknown };
  checkFunction(call, 'options.warning.call');
  const checked = before === undefined ? {} : { before: checkPositive(before, 'options.warning.before') };
  return { ...checked, call: call as LeaseWarningOptions['call'] };
}

function checkPositive(value: unknown, name: string): number {
  if (typeof value !== 'number') throw invalidArgType(name, 'a number', value);
  if (!(value > 0 && value < Infinity)) {
    throw outOfRange(name, 'a number of milliseconds above 0, and finite', value);
  }
  return value;
}

/** How a lease is renewed automatically. */
export interface LeaseRenewOptions {
  /** Milliseconds between renewals, fewer than the ttl. Default: a third of the ttl. */
  every?: number;
  /**
   * Renew it while the event loop of its holder is blocked, too. Needs a finite `maxHold`, after which a holder that
   * hangs loses the lease. A worker thread of this package, one for each thread that holds such leases, opens the store again
   * and renews them. The store must have a `source` (see `ReopenableLeaseStore`), and the manager no `clock`. Default false.
   */
  background?: boolean;
}

/** Checked. */
interface Renewals {
  /** Milliseconds; Infinity for none; undefined for the default. */
  readonly every: number | undefined;
  readonly background: boolean;
}

const RENEW: Names<LeaseRenewOptions> = { every: true, background: true };

function checkRenew(renew: unknown): Renewals {
  if (typeof renew === 'boolean') return renew ? BY_DEFAULT : { every: Infinity, background: false };
  checkPart(renew, RENEW, 'options.renew', 'a boolean or an object');
  const { every, background } = renew as { every?: unknown; background?: unknown };
  return {
    every: every === undefined ? undefined : checkPositive(every, 'options.renew.every'),
    background: background === undefined ? false : checkBoolean(background, 'options.renew.background'),
  };
}
