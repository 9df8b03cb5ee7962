/**
 * Profiles of lock contention: where threads wait, and for which threads.
 *
 * @module stripelock/profile
 */

export {
  profileContention,
  type ContentionProfileOptions,
  type ContentionProfiler,
} from './profile/profiler.js';
export { ContentionProfile } from './profile/contention-profile.js';
export type { ContentionRelease, ContentionWait, HoldingProcess, LeftOut } from './profile/collector.js';
export type { TraceEvent, TraceFile } from './profile/trace-events.js';
