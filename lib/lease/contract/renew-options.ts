import { checkBoolean, checkNames, type Names } from '../../common/checks.js';
import { invalidArgType, outOfRange } from '../../common/errors.js';
import { checkPositive } from './extras.js';

/** Two beats may fail before the lease is lost. */
const BEATS_PER_TTL = 3;

/** How a lease is renewed automatically. */
export interface LeaseRenewOptions {
  /** Milliseconds between renewals, fewer than the ttl. Default: a third of the ttl. */
  every?: number;
  /**
   * Renew it while the event loop of its holder is blocked, too. Needs a finite `maxHold`, after which a holder that
   * hangs loses the lease. In memory the table extends the lease by itself while the holder's thread lives. For other
   * stores a worker thread of this package, one for each thread that holds such leases, renews them through a connection
   * of its own; the store must have a `source` (see `ReopenableLeaseStore`). Default false.
   */
  background?: boolean;
}

/** Checked. */
export interface Renewals {
  /** Milliseconds; Infinity for none; undefined for the default. */
  readonly every: number | undefined;
  readonly background: boolean;
}

export const BY_DEFAULT: Renewals = { every: undefined, background: false };
const RENEW: Names<LeaseRenewOptions> = { every: true, background: true };
const NONE: Renewals = { every: Infinity, background: false };

export function checkRenew(renew: unknown): Renewals {
  if (typeof renew === 'boolean') return renew ? BY_DEFAULT : NONE;
  if (typeof renew !== 'object' || renew === null || Array.isArray(renew)) {
    throw invalidArgType('options.renew', 'a boolean or an object', renew);
  }
  checkNames(renew, RENEW, 'options.renew');
  const { every, background } = renew as { every?: unknown; background?: unknown };
  return {
    every: every === undefined ? undefined : checkPositive(every, 'options.renew.every'),
    background: background === undefined ? false : checkBoolean(background, 'options.renew.background'),
  };
}

/** Milliseconds between renewals; Infinity for none. */
export function everyOf(renew: Renewals, ttl: number): number {
  const every = renew.every ?? ttl / BEATS_PER_TTL;
  if (every < ttl || every === Infinity) return every;
  throw outOfRange('options.renew.every', `a number of milliseconds below the ttl, ${ttl}`, every);
}

/** Without a limit a thread that hangs for good would keep its leases for good. */
export function checkLimit(renew: Renewals, maxHold: number): void {
  if (!renew.background || maxHold < Infinity) return;
  throw outOfRange('options.maxHold', 'finite where options.renew.background is true', maxHold);
}
