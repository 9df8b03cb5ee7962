/**
 * The counters of locks, summed over all threads of the process.
 *
 * @module stripelock/metrics
 */

export { collect, type LockMetrics, type WaitTimes } from './metrics/collect.js';
export {
  LOCK_ATTRIBUTE,
  LOCK_INSTRUMENTS,
  WAIT_HISTOGRAM,
  type LockInstrument,
} from './metrics/instruments.js';
