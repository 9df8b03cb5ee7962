import {
  checkBoolean,
  checkCount,
  checkNames,
  checkOptionsObject,
  checkSignal,
  checkString,
  checkTimeout,
  DEFAULT_TIMEOUT,
  type Names,
} from '../common/checks.js';
import { invalidArgType } from '../common/errors.js';
import type {
  AcquireOptions,
  AsyncAcquireOptions,
  KeyedLockOptions,
  StripedLockOptions,
} from '../common/types.js';
import { MAX_LIMIT, MAX_STRIPES } from '../engine/contract/layout.js';
import { EXCLUSIVE_MODE, MODE_NAMES, modeNamed, PERMIT_MODE, type Mode } from '../engine/contract/mode.js';

const DEFAULT_STRIPES = 1024;
const DEFAULT_CAPACITY = 65_536;

const COMMON = { timeout: true, name: true, engine: true, trace: true } as const;
const STRIPED: Names<StripedLockOptions> = { stripes: true, ...COMMON };
const KEYED: Names<KeyedLockOptions> = { capacity: true, limit: true, ...COMMON };
export const ATTEMPT: Names<Pick<AcquireOptions, 'mode'>> = { mode: true };
export const SYNC_ACQUISITION: Names<AcquireOptions> = { timeout: true, mode: true };
export const ACQUISITION: Names<AsyncAcquireOptions> = { timeout: true, mode: true, signal: true };

/** Options of other methods that a caller may pass by mistake. */
interface ForeignOptions {
  readonly ifAvailable?: unknown;
  readonly signal?: unknown;
}

/** The checked options of a `StripedLock` or a `KeyedLock`, with defaults filled in. */
export interface ResolvedLockOptions {
  readonly stripes: number;
  readonly limit: number;
  readonly timeout: number;
  readonly name: string;
  readonly engine: 'native' | 'javascript' | undefined;
  readonly trace: boolean;
}

export function resolveLockOptions(options: StripedLockOptions | undefined): ResolvedLockOptions {
  checkOptionsObject(options, STRIPED);
  const { stripes } = options ?? {};
  const count = stripes === undefined ? DEFAULT_STRIPES : checkCount(stripes, 'options.stripes', MAX_STRIPES);
  return resolveWith(count, 1, options);
}

/**
 * Like {@link resolveLockOptions}, for a `KeyedLock`. The lock's capacity is the number of stripes, because
 * each key in use has a separate stripe.
 */
export function resolveKeyedLockOptions(options: KeyedLockOptions | undefined): ResolvedLockOptions {
  checkOptionsObject(options, KEYED);
  const { capacity, limit } = options ?? {};
  const count =
    capacity === undefined ? DEFAULT_CAPACITY : checkCount(capacity, 'options.capacity', MAX_STRIPES);
  return resolveWith(count, limit === undefined ? 1 : checkCount(limit, 'options.limit', MAX_LIMIT), options);
}

function resolveWith(
  stripes: number,
  limit: number,
  options: StripedLockOptions | KeyedLockOptions | undefined,
): ResolvedLockOptions {
  const { timeout, name, engine, trace } = options ?? {};
  return {
    stripes,
    limit,
    timeout: timeout === undefined ? DEFAULT_TIMEOUT : checkTimeout(timeout, 'options.timeout'),
    name: name === undefined ? '' : checkString(name, 'options.name'),
    engine: engine === undefined ? undefined : checkEngine(engine),
    trace: trace === undefined ? false : checkBoolean(trace, 'options.trace'),
  };
}

/**
 * The requested mode of an acquisition. `names`: the options that the method supports.
 *
 * Of the unknown options, this function refuses only `ifAvailable`, which `LockManager.request` supports.
 * Checking one property costs nothing if callers pass objects of the same shape. Reading all property names
 * would make the acquisition of a free key 40 % slower. So other unknown names are refused by
 * {@link checkNamesOfWait}, which runs only if the acquisition has to wait.
 */
export function modeIn(options: AcquireOptions | undefined, names: object): Mode {
  if (options === undefined) return EXCLUSIVE_MODE;
  checkOptionsObject(options);
  const { mode, ifAvailable } = options as AcquireOptions & ForeignOptions;
  if (ifAvailable !== undefined) checkNames(options, names);
  return mode === undefined ? EXCLUSIVE_MODE : (modeNamed(mode) ?? refuseMode(mode));
}

/**
 * Like {@link modeIn}, in a lock with permits. Such a lock supports only the mode 'exclusive', which acquires
 * one permit.
 */
export function permitModeIn(options: AcquireOptions | undefined, names: object): Mode {
  const mode = modeIn(options, names);
  if (mode === EXCLUSIVE_MODE) return PERMIT_MODE;
  throw invalidArgType('options.mode', "'exclusive' where the lock has a limit above 1", mode.name);
}

function refuseMode(name: unknown): never {
  throw invalidArgType('options.mode', MODE_NAMES.map((known) => `'${known}'`).join(' or '), name);
}

/**
 * The timeout of an acquisition, in milliseconds. `usual`: the default. Callers of this function and of the
 * functions below have already checked that `options` is an object or undefined.
 */
export function timeoutIn(options: AcquireOptions | undefined, usual: number): number {
  const timeout = options?.timeout;
  return timeout === undefined ? usual : checkTimeout(timeout, 'options.timeout');
}

/** Refuses a signal, because a signal cannot end a wait that blocks the thread. */
export function checkSyncOptions(options: AcquireOptions | undefined): void {
  if ((options as ForeignOptions | undefined)?.signal !== undefined) checkNames(options!, SYNC_ACQUISITION);
}

/** Refuses unknown options of an acquisition that has to wait. */
export function checkNamesOfWait(options: AcquireOptions | undefined): void {
  if (options !== undefined) checkNames(options, ACQUISITION);
}

/**
 * Refuses unknown options of `tryAcquire`. Also refuses `timeout` and `signal`, unless they are undefined.
 * All names are read even if the key is free, because attempts with options are rare.
 */
export function checkAttemptNames(options: AsyncAcquireOptions | undefined): void {
  if (options === undefined) return;
  const waits = options.timeout !== undefined || options.signal !== undefined;
  checkNames(options, waits ? ATTEMPT : ACQUISITION);
}

export function signalIn(options: AsyncAcquireOptions | undefined): AbortSignal | undefined {
  const signal = options?.signal;
  return signal === undefined ? undefined : checkSignal(signal);
}

function checkEngine(engine: unknown): 'native' | 'javascript' {
  if (engine === 'native' || engine === 'javascript') return engine;
  throw invalidArgType('options.engine', "'native' or 'javascript'", engine);
}
