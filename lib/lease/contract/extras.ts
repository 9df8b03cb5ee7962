import { checkFunction, checkNames, type Names } from '../../common/checks.js';
import { invalidArgType, outOfRange, type LockError } from '../../common/errors.js';
import { checkInfo } from './info.js';
import { MAX_TTL } from './lease-store.js';

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

/** A warning before a lease is lost because renewals fail. */
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
   * Milliseconds, 0 … 2^42: nobody else is granted the key for so long after the grant, even if it is released before. A
   * release then leaves the rest of that time to the store. Default for a manager: 0.
   */
  minHold?: number;
  /**
   * Kept by the store, for those who `inspect` the key: a text of at most 1024 bytes in UTF-8, such as a host and a
   * process. See `Lease.setInfo`. Default for a manager: none.
   */
  info?: string;
}

/** `defaults` itself if the options have none. */
export function checkExtras(options: LeaseExtras, defaults: LeaseExtras): LeaseExtras {
  const { warning, minHold, info } = options;
  if (warning === undefined && minHold === undefined && info === undefined) return defaults;
  return {
    ...defaults,
    ...(warning !== undefined && { warning: checkWarning(warning) }),
    ...(minHold !== undefined && { minHold: checkMinHold(minHold) }),
    ...(info !== undefined && { info: checkInfo(info, 'options.info') }),
  };
}

function checkMinHold(minHold: unknown): number {
  if (typeof minHold !== 'number') throw invalidArgType('options.minHold', 'a number', minHold);
  if (minHold >= 0 && minHold <= MAX_TTL) return minHold;
  throw outOfRange('options.minHold', `a number of milliseconds from 0 to ${MAX_TTL}`, minHold);
}

const WARNING: Names<LeaseWarningOptions> = { before: true, call: true };

function checkWarning(warning: unknown): LeaseWarningOptions {
  if (typeof warning !== 'object' || warning === null || Array.isArray(warning)) {
    throw invalidArgType('options.warning', 'an object', warning);
  }
  checkNames(warning, WARNING, 'options.warning');
  const { before, call } = warning as { before?: unknown; call?: unknown };
  checkFunction(call, 'options.warning.call');
  const checked = before === undefined ? {} : { before: checkPositive(before, 'options.warning.before') };
  return { ...checked, call: call as LeaseWarningOptions['call'] };
}

export function checkPositive(value: unknown, name: string): number {
  if (typeof value !== 'number') throw invalidArgType(name, 'a number', value);
  if (!(value > 0 && value < Infinity)) {
    throw outOfRange(name, 'a number of milliseconds above 0, and finite', value);
  }
  return value;
}
