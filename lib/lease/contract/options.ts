import {
  checkBoolean,
  checkCount,
  checkFunction,
  checkOptionsObject,
  checkPart,
  checkSignal,
  checkTimeout,
  DEFAULT_TIMEOUT,
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
export const DEFAULT_TTL = 30_000;
/** The default warning comes when this part of the ttl, a third, is left until the local deadline. */
const WARNING_PART = 3;
/** Two beats may fail before the lease is lost. */
const BEATS_PER_TTL = 3;

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
   * The maximum number of holders of the key at once, 1 … 1000, across all processes that pass the same number. Each holder
   * has one slot, see `Lease.slot`. An acquisition with a smaller limit uses only the first slots. For one key. Default 1.
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

/** For `withLease`; without `ifAvailable` for `acquire`; without `timeout` and `signal`, too, for `tryAcquire`. */
export interface WithLeaseOptions extends AcquireLeaseOptions {
  /** Do not wait: if the lease is held, resolve to undefined, without calling the function. Default false. */
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
   * Called once in each series of renewals that fail or get no answer, `before` milliseconds before the deadline. A timer
   * calls it: later if the event loop is blocked, and not at all after the deadline. Its errors are not caught.
   */
  call: (warning: LeaseWarning) => void;
}

/** Further options of an acquisition, or of all leases of a manager. */
export interface LeaseExtras {
  /** A function that is called before the lease is lost because renewals fail. Default for a manager: none. */
  warning?: LeaseWarningOptions;
  /**
   * Milliseconds after the grant, 0 … 2^42, during which no other owner is granted the key, even after a release. An earlier
   * release leaves the rest of this time to the store. Default for a manager: 0.
   */
  minHold?: number;
  /**
   * A text of at most 1024 bytes in UTF-8, such as a host and a process, that the store keeps with the lease and `inspect`
   * shows. See `Lease.setInfo`. Default for a manager: none.
   */
  info?: string;
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

/** How a lease is renewed automatically, checked. */
interface Renewals {
  /** Milliseconds; Infinity for none; undefined for the default. */
  readonly every: number | undefined;
  readonly background: boolean;
}

/** The options of a lease, checked, before the terms that follow from them. */
interface Given extends Pick<LeaseTerms, 'ttl' | 'maxHold' | 'minHold' | 'info'> {
  readonly renew: Renewals;
  readonly warning: LeaseWarningOptions | undefined;
}

/** The options of a manager without the terms of its leases, checked. */
interface OwnSettings {
  readonly store: LeaseStore | undefined;
  readonly holder: string | undefined;
  readonly reentrant: boolean;
  readonly backoff: Backoff;
  readonly clock: Clock | undefined;
}

/** The options of a manager, checked. */
export interface ManagerSettings extends OwnSettings {
  /** Defaults of the options of a lease. */
  readonly given: Given;
  /** The terms of a lease without options. */
  readonly terms: LeaseTerms;
}

/** How long an acquisition waits at most. */
export interface Wait {
  /** Milliseconds. */
  readonly timeout: number;
  readonly signal: AbortSignal | undefined;
}

/** For each option: throws for a bad value, or returns the checked one. `name`: the option in messages. */
type Checks<O, K extends keyof O = keyof O> = {
  readonly [N in K]-?: (value: unknown, name: string) => O[N];
};

const BACKOFF: Checks<Backoff> = { initial: checkPositive, max: checkPositive, jitter: within(0, 1) };
const RENEW: Checks<Renewals> = { every: checkPositive, background: checkBoolean };
const WARNING: Checks<LeaseWarningOptions> = { before: checkPositive, call: checkCall };
const TERMS: Checks<Given> = {
  ttl: checkTtl,
  renew: checkRenew,
  maxHold: checkTimeout,
  warning: checkWarning,
  minHold: within(0, MAX_TTL, 'a number of milliseconds'),
  info: checkInfo,
};
const OWN: Checks<OwnSettings> = {
  store: checkStore,
  holder: checkNonEmpty,
  reentrant: checkBoolean,
  backoff: checkBackoff,
  clock: checkClock,
};
const LIMIT: Checks<LeaseTerms, 'limit'> = {
  limit: (limit, name) => checkCount(limit, name, MAX_LIMIT),
};
const WAIT: Checks<Wait> = { timeout: checkTimeout, signal: checkSignal };
const TRY_ACQUIRE: Checks<Record<keyof TryAcquireLeaseOptions, unknown>> = { ...TERMS, ...LIMIT };
const ACQUIRE: Checks<Record<keyof AcquireLeaseOptions, unknown>> = { ...TRY_ACQUIRE, ...WAIT };
const WITH_LEASE: Checks<Record<keyof WithLeaseOptions, unknown>> = { ...ACQUIRE, ifAvailable: checkBoolean };
const MANAGER: Checks<Record<keyof WarningLeaseManagerOptions, unknown>> = { ...TERMS, ...OWN };
const CLOSE: Checks<Required<LeaseCloseOptions>> = { drain: checkTimeout };

const BY_DEFAULT: Renewals = { every: undefined, background: false };
const NEVER: Renewals = { every: Infinity, background: false };
const DEFAULT_BACKOFF: Backoff = { initial: 10, max: 1000, jitter: 0.5 };
const DEFAULT_TERMS: Given = {
  ttl: DEFAULT_TTL,
  renew: BY_DEFAULT,
  maxHold: Infinity,
  warning: undefined,
  minHold: 0,
  info: undefined,
};
const DEFAULT_SETTINGS: OwnSettings = {
  store: undefined,
  holder: undefined,
  reentrant: false,
  backoff: DEFAULT_BACKOFF,
  clock: undefined,
};
const DEFAULT_WAIT: Wait = { timeout: DEFAULT_TIMEOUT, signal: undefined };

/**
 * Returns each option that has a check: the given value, checked, or else its default. Returns `defaults` itself if no option is
 * given. `what`: the name of the object in messages.
 */
function resolve<O extends object, K extends keyof O>(
  given: object,
  checks: Checks<O, K>,
  defaults: O,
  what = 'options',
): O {
  let resolved = defaults;
  for (const name of Object.keys(checks) as (K & string)[]) {
    const value = (given as Partial<Record<K, unknown>>)[name];
    if (value === undefined) continue;
    if (resolved === defaults) resolved = { ...defaults };
    resolved[name] = checks[name](value, `${what}.${name}`);
  }
  return resolved;
}

/** Checks the options, and fills in the defaults. */
export function resolveManagerOptions(options: WarningLeaseManagerOptions = {}): ManagerSettings {
  checkOptionsObject(options, MANAGER);
  const given = resolve(options, TERMS, DEFAULT_TERMS);
  return { ...resolve(options, OWN, DEFAULT_SETTINGS), given, terms: makeTerms(given) };
}

/** Throws for an option that the method does not have, and for what is not an object. */
export const checkLeaseOptions = {
  tryAcquire: (options: unknown): void => checkOptionsObject(options, TRY_ACQUIRE),
  acquire: (options: unknown): void => checkOptionsObject(options, ACQUIRE),
  withLease: (options: unknown): void => checkOptionsObject(options, WITH_LEASE),
};

/** The terms of one lease. `options`: of a method that has checked their names. */
export function resolveTerms(
  { given, terms }: ManagerSettings,
  options: TryAcquireLeaseOptions | undefined,
): LeaseTerms {
  if (options === undefined) return terms;
  const own = resolve(options, TERMS, given);
  const lease = own === given ? terms : makeTerms(own);
  return resolve(options, LIMIT, lease);
}

/** Checks the timeout and the signal of an acquisition. */
export function resolveWait(options: AcquireLeaseOptions | undefined): Wait {
  return options === undefined ? DEFAULT_WAIT : resolve(options, WAIT, DEFAULT_WAIT);
}

/** Milliseconds. */
export function resolveDrain(options: LeaseCloseOptions = {}): number {
  checkOptionsObject(options, CLOSE);
  return resolve(options, CLOSE, { drain: 0 }).drain;
}

function makeTerms({ ttl, renew, warning, ...same }: Given): LeaseTerms {
  const { every = ttl / BEATS_PER_TTL, background } = renew;
  if (every < Infinity) checkBelowTtl(every, 'options.renew.every', ttl);
  // Without a limit a thread that hangs for good would keep its leases for good.
  if (background && same.maxHold === Infinity) {
    throw outOfRange('options.maxHold', 'finite where options.renew.background is true', same.maxHold);
  }
  return { ...same, ttl, every, background, warning: warning && warningOf(warning, ttl), limit: 1, slot: 0 };
}

function warningOf(warning: LeaseWarningOptions, ttl: number): LeaseTerms['warning'] {
  const { before = ttl / WARNING_PART, call } = warning;
  checkBelowTtl(before, 'options.warning.before', ttl);
  return { before, call };
}

function checkBelowTtl(value: number, name: string, ttl: number): void {
  if (value >= ttl) throw outOfRange(name, `a number of milliseconds below the ttl, ${ttl}`, value);
}

function checkRenew(renew: unknown, name: string): Renewals {
  if (typeof renew === 'boolean') return renew ? BY_DEFAULT : NEVER;
  checkPart(renew, RENEW, name, 'a boolean or an object');
  return resolve(renew as object, RENEW, BY_DEFAULT, name);
}

function checkWarning(warning: unknown, name: string): LeaseWarningOptions {
  checkPart(warning, WARNING, name);
  const { call } = warning as Partial<LeaseWarningOptions>;
  return resolve(warning as object, WARNING, { call: checkCall(call, `${name}.call`) }, name);
}

function checkCall(call: unknown, name: string): LeaseWarningOptions['call'] {
  checkFunction(call, name);
  return call as LeaseWarningOptions['call'];
}

function checkBackoff(backoff: unknown, name: string): Backoff {
  checkPart(backoff, BACKOFF, name);
  const checked = resolve(backoff as object, BACKOFF, DEFAULT_BACKOFF, name);
  const { initial, max } = checked;
  if (max < initial) throw outOfRange(`${name}.max`, `at least ${name}.initial, ${initial}`, max);
  return checked;
}

export function checkStore(store: unknown, name: string): LeaseStore {
  const operations = ['tryAcquire', 'renew', 'release', 'inspect'] as const;
  const candidate = store as Partial<LeaseStore> | null;
  const complete =
    typeof candidate === 'object' &&
    candidate !== null &&
    operations.every((operation) => typeof candidate[operation] === 'function');
  if (!complete) throw invalidArgType(name, `an object with ${operations.join(', ')}`, store);
  return candidate as LeaseStore;
}

function checkPositive(value: unknown, name: string): number {
  if (typeof value !== 'number') throw invalidArgType(name, 'a number', value);
  if (value > 0 && value < Infinity) return value;
  throw outOfRange(name, 'a number of milliseconds above 0, and finite', value);
}

/** A check for a number in this range. */
function within(
  least: number,
  most: number,
  expected = 'a number',
): (value: unknown, name: string) => number {
  return (value, name) => {
    if (typeof value !== 'number') throw invalidArgType(name, 'a number', value);
    if (value >= least && value <= most) return value;
    throw outOfRange(name, `${expected} from ${least} to ${most}`, value);
  };
}
