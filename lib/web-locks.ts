/**
 * The Web Locks API, `navigator.locks` of browsers, for all threads of a process.
 *
 * @module stripelock/web-locks
 */

export { Lock } from './web-locks/lock.js';
export { LockManager, locks } from './web-locks/manager.js';
export type {
  LockGrantedCallback,
  LockInfo,
  LockManagerOptions,
  LockManagerSnapshot,
  LockOptions,
} from './web-locks/types.js';
export type { HandleOf } from './common/types.js';
export type { WebLockMessage } from './common/diagnostics.js';
