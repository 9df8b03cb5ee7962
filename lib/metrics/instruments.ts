import type { LockKind } from '../engine/contract/counts.js';

/** The export of a field of `LockMetrics`, following OpenTelemetry's conventions. */
export interface LockInstrument {
  /**
   * The name, with dots as separators. Prometheus uses underscores instead, and
   * the suffix `_total` for counters.
   */
  readonly name: string;
  /** The kind. A `gauge` can rise and fall, a `counter` only rises. */
  readonly kind: 'counter' | 'gauge';
  /** The unit, in UCUM notation. */
  readonly unit: string;
  /** The description that tools show. */
  readonly description: string;
  /** The field of `LockMetrics` that is exported. */
  readonly field:
    'locks' | 'held' | 'waiting' | 'contended' | 'timeouts' | 'aborts' | 'deadlocks' | 'abandoned';
}

/** The export of a field that only `LeaseMetrics` has. */
export interface LeaseInstrument extends Omit<LockInstrument, 'field'> {
  /** The exported field. */
  readonly field: 'acquired' | 'refused' | 'renewals' | 'failures' | 'losses';
}

/** The attribute with the kind of lock: `lock`, `process`, `lease` or `web-lock`. */
export const KIND_ATTRIBUTE = 'stripelock.lock.kind';

/**
 * The attribute with the lock's name, which all instruments have. Keys are never attributes,
 * because their number is unlimited.
 */
export const LOCK_ATTRIBUTE = 'stripelock.lock.name';

/** All instruments of all kinds of locks, except the histogram. */
export const LOCK_INSTRUMENTS: readonly LockInstrument[] = [
  instrument('stripelock.lock.count', 'gauge', '{lock}', 'Locks that are open now.', 'locks'),
  instrument('stripelock.lock.held', 'gauge', '{key}', 'Keys or stripes held now.', 'held'),
  instrument('stripelock.lock.waiting', 'gauge', '{acquisition}', 'Acquisitions waiting now.', 'waiting'),
  instrument(
    'stripelock.lock.contentions',
    'counter',
    '{acquisition}',
    'Acquisitions that had to wait.',
    'contended',
  ),
  instrument(
    'stripelock.lock.timeouts',
    'counter',
    '{acquisition}',
    'Acquisitions that ran out of time.',
    'timeouts',
  ),
  instrument(
    'stripelock.lock.aborts',
    'counter',
    '{acquisition}',
    'Acquisitions that their signal ended.',
    'aborts',
  ),
  instrument(
    'stripelock.lock.deadlocks',
    'counter',
    '{acquisition}',
    'Acquisitions that were refused, as their wait could never have ended.',
    'deadlocks',
  ),
  instrument(
    'stripelock.lock.abandoned',
    'counter',
    '{key}',
    'Keys or stripes that were freed for threads that ended while they held them.',
    'abandoned',
  ),
];

/** The additional instruments for leases. */
export const LEASE_INSTRUMENTS: readonly LeaseInstrument[] = [
  instrument('stripelock.lease.acquisitions', 'counter', '{key}', 'Keys that stores granted.', 'acquired'),
  instrument(
    'stripelock.lease.refusals',
    'counter',
    '{attempt}',
    'Attempts without a wait for a key that was held.',
    'refused',
  ),
  instrument('stripelock.lease.renewals', 'counter', '{key}', 'Renewals that succeeded.', 'renewals'),
  instrument(
    'stripelock.lease.failures',
    'counter',
    '{key}',
    'Operations of stores that failed or got no answer in time.',
    'failures',
  ),
  instrument('stripelock.lease.losses', 'counter', '{key}', 'Leases that ended without a release.', 'losses'),
];

/** The instruments for a kind of lock. */
export function instrumentsOf(kind: LockKind): readonly (LockInstrument | LeaseInstrument)[] {
  return kind === 'lease' ? [...LOCK_INSTRUMENTS, ...LEASE_INSTRUMENTS] : LOCK_INSTRUMENTS;
}

/** The histogram `waits`, in seconds. */
export const WAIT_HISTOGRAM: Pick<LockInstrument, 'name' | 'unit' | 'description'> = {
  name: 'stripelock.lock.wait.duration',
  unit: 's',
  description: 'How long acquisitions waited that could not be had at once.',
};

function instrument<Field>(
  name: string,
  kind: LockInstrument['kind'],
  unit: string,
  description: string,
  field: Field,
): Omit<LockInstrument, 'field'> & { readonly field: Field } {
  return { name, kind, unit, description, field };
}
