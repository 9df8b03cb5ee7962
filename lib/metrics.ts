/**
 * The counters of locks and leases, summed over all threads of the process.
 *
 * @module stripelock/metrics
 */

export {
  collect,
  type LeaseMetrics,
  type LockKind,
  type LockMetrics,
  type Metrics,
  type WaitTimes,
} from './metrics/collect.js';
export {
  KIND_ATTRIBUTE,
  LEASE_INSTRUMENTS,
  LOCK_ATTRIBUTE,
  LOCK_INSTRUMENTS,
  WAIT_HISTOGRAM,
  type LeaseInstrument,
  type LockInstrument,
} from './metrics/instruments.js';
