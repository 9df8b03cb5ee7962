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
import type { HostSignal, LockMode } from '../../common/types.js';
import {
  checkClock,
  checkInfo,
  checkNonEmpty,
  checkTtl,
  type Clock,
  KEPT,
  type LeaseStore,
  MAX_TTL,
} from './lease-store.js';
import { READERS } from './shared.js';
import { MAX_LIMIT } from './slots.js';

/** The default TTL, in milliseconds. */
export const DEFAULT_TTL = 30_000;
/** By default, a warning comes `ttl / WARNING_PART` milliseconds before the local deadline. */
const WARNING_PART = 3;
/** The default number of renewals per TTL. This number leaves time for retries after a failed renewal. */
const BEATS_PER_TTL = 3;

/** Options that limit how long a lease lasts. */
export interface LeaseOptions {
  /** The time to live: whole milliseconds, 1 … 2^42. Default: the manager's `ttl`. */
  ttl?: number;
  /**
   * Whether to renew the lease automatically while it is held. The default interval is ttl/3. `every` sets
   * another interval, in milliseconds, which must be less than the ttl. Default: the manager's `renew`.
   */
  renew?: boolean | Pick<LeaseRenewOptions, 'every'>;
  /**
   * Automatic renewal stops this many milliseconds after the grant. The lease then ends at most one ttl
   * later. Default: the manager's `maxHold`.
   */
  maxHold?: number;
}

/** Options of `tryAcquire`. Each option except `limit` defaults to the manager's option of the same name. */
export interface TryAcquireLeaseOptions extends Omit<LeaseOptions, 'renew'>, LeaseExtras {
  /**
   * Whether to renew the lease automatically while it is held. The default interval is ttl/3. `every` sets
   * another interval, in milliseconds, which must be less than the ttl. With `background`, the lease is
   * renewed even while the event loop is blocked. Default: the manager's `renew`.
   */
  renew?: boolean | LeaseRenewOptions;
  /**
   * The maximum number of holders of the key at once, 1 … 1000. Each holder has one slot (see `Lease.slot`).
   * All processes should pass the same limit, because an acquisition with a smaller limit uses only the first
   * slots. A limit above 1 requires exactly one key. Default 1.
   */
  limit?: number;
  /**
   * With `shared`, several leases can hold the key together, and exclude exclusive leases. All leases that
   * hold the key together have the same token. The store must be a `SharedLeaseStore`. Shared leases have no
   * `limit`, `minHold` or `info`; the manager's `minHold` and `info` do not apply to them. Default
   * `exclusive`.
   */
  mode?: LockMode;
}

/** Options of a manager, and the defaults for its leases. */
export interface LeaseManagerOptions {
  /**
   * The name of the leases in metrics, profiles and spans. Metrics add up the counts of all managers with the
   * same name.
   * Default: `leases`.
   */
  name?: string;
  /**
   * The store of the leases. Default: a new `MemoryLeaseStore`, with the manager's `clock` if there is one.
   */
  store?: LeaseStore;
  /** The time to live of a lease: whole milliseconds, 1 … 2^42. Default 30_000. */
  ttl?: number;
  /**
   * Whether to renew leases automatically while they are held. The default interval is ttl/3. `every` sets
   * another interval, in milliseconds, which must be less than the ttl. Default true.
   */
  renew?: boolean | Pick<LeaseRenewOptions, 'every'>;
  /**
   * Automatic renewal stops this many milliseconds after the grant, so that a holder that hangs loses the
   * lease. Default Infinity.
   */
  maxHold?: number;
  /**
   * A fixed name for the owner of all leases of the manager. After a crash, a new manager with the same name
   * can acquire the keys that this owner still holds. Only one running manager may use a name, because the
   * store cannot distinguish two managers with the same name. Must not start with `stripelock:readers:` or
   * `stripelock:kept:`. Default: a unique owner for each acquisition.
   */
  holder?: string;
  /**
   * Whether acquisitions of the same key through this manager join one lease. The joined lease ends when all
   * of them have released it. Default false.
   */
  reentrant?: boolean;
  /**
   * The pauses between attempts. The first pause is `initial` milliseconds long. Each later pause is twice as
   * long as the pause before it, but at most `max`. A random fraction, at most `jitter`, is then subtracted
   * from each pause. Default: `initial` 10, `max` 1000, `jitter` 0.5.
   */
  backoff?: {
    /** Milliseconds before the second attempt. Default 10. */
    initial?: number;
    /** The longest pause, in milliseconds; at least `initial`. Default 1000. */
    max?: number;
    /** The largest fraction by which a pause is shortened at random, 0 … 1. Default 0.5. */
    jitter?: number;
  };
  /**
   * The clock for local deadlines, renewals and `maxHold`. Default: `performance.now()`. If the addon is
   * loaded, the default clock also counts the time during which the machine was suspended. With a `clock`, no
   * lease can be renewed in the background.
   */
  clock?: Clock;
}

/** Options of `new LeaseManager(options)`. */
export interface WarningLeaseManagerOptions extends Omit<LeaseManagerOptions, 'renew'>, LeaseExtras {
  /**
   * Whether to renew leases automatically while they are held. The default interval is ttl/3. `every` sets
   * another interval, in milliseconds, which must be less than the ttl. With `background`, the leases are
   * renewed even while the event loop is blocked. Default true.
   */
  renew?: boolean | LeaseRenewOptions;
}

/** Options of `acquire`. */
export interface AcquireLeaseOptions extends TryAcquireLeaseOptions {
  /**
   * The timeout of the whole acquisition, in milliseconds of real time. With 0, the acquisition makes one
   * attempt. With Infinity, it waits forever. Default 5000.
   */
  timeout?: number;
  /** If this signal aborts, the wait ends, and the acquisition rejects with `signal.reason`. */
  signal?: HostSignal;
}

/** Options of a manager's `close`. */
export interface LeaseCloseOptions {
  /**
   * The maximum time, in milliseconds, for which `close` waits until all held leases are
   * released: 0 … Infinity. Default 0.
   */
  drain?: number;
}

/**
 * Options of `withLease`. `acquire` has all of these options except `ifAvailable`. `tryAcquire` has all of
 * them except `ifAvailable`, `timeout` and `signal`.
 */
export interface WithLeaseOptions extends AcquireLeaseOptions {
  /**
   * Whether to make only one attempt. If another owner holds a key, `withLease` then resolves to undefined,
   * and does not call the function. Default false.
   */
  ifAvailable?: boolean;
}

/** The checked option `backoff`: the pauses between attempts. */
export interface Backoff {
  readonly initial: number;
  readonly max: number;
  readonly jitter: number;
}

/** The options of one lease, with all defaults filled in. Times are in milliseconds. */
export interface LeaseTerms {
  readonly ttl: number;
  /** The time between two automatic renewals; Infinity if there are none. */
  readonly every: number;
  /** Whether another thread renews the lease, so that it is renewed even while the event loop is blocked. */
  readonly background: boolean;
  readonly maxHold: number;
  readonly warning: { readonly before: number; readonly call: (warning: LeaseWarning) => void } | undefined;
  /**
   * The time after the grant during which the store keeps the key taken even if the lease is released; 0 if a
   * release frees the key at once.
   */
  readonly minHold: number;
  readonly info: string | undefined;
  /** The maximum number of holders of the key at once. */
  readonly limit: number;
  /** The slot of the lease, 0 … limit - 1. */
  readonly slot: number;
  readonly mode: LockMode;
}

/** A warning that a lease will be lost unless a renewal succeeds soon; see {@link LeaseWarningOptions}. */
export interface LeaseWarning {
  /** The key of the lease. */
  readonly key: string;
  /** The token of the lease. */
  readonly token: bigint;
  /** The name of the lease's owner in the store. */
  readonly holder: string;
  /** Milliseconds until the local deadline of the lease. */
  readonly remaining: number;
  /** The error of the last renewal; undefined if that renewal has no answer yet. */
  readonly cause: LockError | undefined;
}

/** The option `warning`: a function that is called before a lease is lost because its renewals fail. */
export interface LeaseWarningOptions {
  /**
   * The function is called this many milliseconds before the local deadline. The number must be less than the
   * ttl. Default: ttl/3.
   */
  before?: number;
  /**
   * The function to call. It is called once in each series of renewals that fail or get no answer. A timer
   * makes the call. So the call is late if the event loop is blocked, and there is no call after the
   * deadline. Errors of the function are not caught.
   */
  call: (warning: LeaseWarning) => void;
}

/** Further options of an acquisition, or of all leases of a manager. */
export interface LeaseExtras {
  /**
   * A function that is called when renewals fail, before the lease is lost. Default for a manager: none.
   */
  warning?: LeaseWarningOptions;
  /**
   * The time after the grant during which no other owner is granted the key, in milliseconds, 0 … 2^42. If the
   * lease is released earlier, the store refuses every acquisition of the key for the rest of this time. Default
   * for a manager: 0.
   */
  minHold?: number;
  /**
   * A text of at most 1024 bytes in UTF-8, such as the names of a host and a process. The store keeps the
   * text with the lease, `inspect` returns it, and `Lease.setInfo` replaces it. Default for a manager: none.
   */
  info?: string;
}

/** Options of automatic renewal. */
export interface LeaseRenewOptions {
  /** Milliseconds between two renewals, less than the ttl. Default: ttl/3. */
  every?: number;
  /**
   * Whether to renew the lease even while its holder's event loop is blocked. A worker thread of this package
   * then opens the store again and renews the lease. Each thread that holds such leases has one such worker.
   * This option requires a finite `maxHold`, so that a holder that hangs loses the lease after that time. It
   * also requires a store with a `source` (see `ReopenableLeaseStore`), and a manager without a `clock`.
   * Default false.
   */
  background?: boolean;
}

/** The checked option `renew`. */
interface Renewals {
  /** Milliseconds between two renewals. Infinity means no renewals; undefined means the default. */
  readonly every: number | undefined;
  readonly background: boolean;
}

/** The checked options of a lease. `makeTerms` computes the terms of the lease from these options. */
interface Given extends Pick<LeaseTerms, 'ttl' | 'maxHold' | 'minHold' | 'info'> {
  readonly renew: Renewals;
  readonly warning: LeaseWarningOptions | undefined;
}

/** The checked options that concern a manager itself, not the terms of its leases. */
interface OwnSettings {
  readonly name: string;
  readonly store: LeaseStore | undefined;
  readonly holder: string | undefined;
  readonly reentrant: boolean;
  readonly backoff: Backoff;
  readonly clock: Clock | undefined;
}

/** All checked options of a manager. */
export interface ManagerSettings extends OwnSettings {
  /** The manager's options for its leases, which acquisitions can override. */
  readonly given: Given;
  /** The terms of a lease that is acquired without options. */
  readonly terms: LeaseTerms;
}

/** The checked options that limit the wait of an acquisition. */
export interface Wait {
  /** Milliseconds for the whole acquisition. */
  readonly timeout: number;
  readonly signal: AbortSignal | undefined;
}

/**
 * For each option, a function that returns the checked value, or throws if the value is bad. `name`: the
 * option's name in messages.
 */
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
  name: checkNonEmpty,
  store: checkStore,
  holder: checkHolder,
  reentrant: checkBoolean,
  backoff: checkBackoff,
  clock: checkClock,
};
const PER_LEASE: Checks<LeaseTerms, 'limit' | 'mode'> = {
  limit: (limit, name) => checkCount(limit, name, MAX_LIMIT),
  mode: checkMode,
};
const WAIT: Checks<Wait> = { timeout: checkTimeout, signal: checkSignal };
const TRY_ACQUIRE: Checks<Record<keyof TryAcquireLeaseOptions, unknown>> = {
  ...TERMS,
  ...PER_LEASE,
};
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
  name: 'leases',
  store: undefined,
  holder: undefined,
  reentrant: false,
  backoff: DEFAULT_BACKOFF,
  clock: undefined,
};
const DEFAULT_WAIT: Wait = { timeout: DEFAULT_TIMEOUT, signal: undefined };

/**
 * Returns a copy of `defaults` in which each given option is replaced by its checked value. Returns
 * `defaults` itself if no option is given. Options without a check are ignored. `what`: the name of the
 * options object in messages.
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

/** Checks a manager's options, and fills in the defaults. */
export function resolveManagerOptions(options: WarningLeaseManagerOptions = {}): ManagerSettings {
  checkOptionsObject(options, MANAGER);
  const given = resolve(options, TERMS, DEFAULT_TERMS);
  return { ...resolve(options, OWN, DEFAULT_SETTINGS), given, terms: makeTerms(given) };
}

/**
 * For each method, a function that throws if the options are not an object, or if they contain an option that
 * the method does not have.
 */
export const checkLeaseOptions = {
  tryAcquire: (options: unknown): void => checkOptionsObject(options, TRY_ACQUIRE),
  acquire: (options: unknown): void => checkOptionsObject(options, ACQUIRE),
  withLease: (options: unknown): void => checkOptionsObject(options, WITH_LEASE),
};

/** Computes the terms of one lease. The caller must have checked the names of the options. */
export function resolveTerms(
  { given, terms }: ManagerSettings,
  options: TryAcquireLeaseOptions | undefined,
): LeaseTerms {
  if (options === undefined) return terms;
  const own = resolve(options, TERMS, given);
  const lease = own === given ? terms : makeTerms(own);
  const resolved = resolve(options, PER_LEASE, lease);
  return resolved.mode === 'shared' ? sharedTerms(resolved, options) : resolved;
}

/** Checks that no option excludes shared mode. The manager's own `minHold` and `info` do not apply. */
function sharedTerms(terms: LeaseTerms, { info, minHold = 0 }: TryAcquireLeaseOptions): LeaseTerms {
  if (terms.limit > 1) throw outOfRange('options.limit', '1 in shared mode', terms.limit);
  if (minHold > 0) throw outOfRange('options.minHold', '0 in shared mode', minHold);
  if (info !== undefined) throw invalidArgType('options.info', 'left out in shared mode', info);
  return { ...terms, minHold: 0, info: undefined };
}

/** Checks the timeout and the signal of an acquisition, and fills in the defaults. */
export function resolveWait(options: AcquireLeaseOptions | undefined): Wait {
  return options === undefined ? DEFAULT_WAIT : resolve(options, WAIT, DEFAULT_WAIT);
}

/**
 * Checks the options of `close`. Returns the maximum time to wait until held leases are released, in
 * milliseconds.
 */
export function resolveDrain(options: LeaseCloseOptions = {}): number {
  checkOptionsObject(options, CLOSE);
  return resolve(options, CLOSE, { drain: 0 }).drain;
}

function makeTerms({ ttl, renew, warning, ...same }: Given): LeaseTerms {
  const { every = ttl / BEATS_PER_TTL, background } = renew;
  if (every < Infinity) checkBelowTtl(every, 'options.renew.every', ttl);
  // Without a finite `maxHold`, a thread that hangs forever would keep its leases forever.
  if (background && same.maxHold === Infinity) {
    throw outOfRange('options.maxHold', 'finite where options.renew.background is true', same.maxHold);
  }
  const once = { warning: warning && warningOf(warning, ttl), limit: 1, slot: 0, mode: 'exclusive' as const };
  return { ...same, ttl, every, background, ...once };
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

function checkMode(mode: unknown, name: string): LockMode {
  if (mode === 'exclusive' || mode === 'shared') return mode;
  const isText = typeof mode === 'string';
  throw (isText ? outOfRange : invalidArgType)(name, "'exclusive' or 'shared'", mode);
}

/** Groups of readers, and keys that are kept after a release, have owners with these prefixes. */
function checkHolder(holder: unknown, name: string): string {
  const checked = checkNonEmpty(holder, name);
  for (const prefix of [READERS, KEPT]) {
    if (checked.startsWith(prefix))
      throw outOfRange(name, `a string that does not start with ${prefix}`, holder);
  }
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

/** Returns a check for a number in this range. */
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
