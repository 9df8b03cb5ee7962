/**
 * Locks on keys for the processes of one machine. The kernel frees the keys of a process when the process
 * ends.
 *
 * @module stripelock/process
 */

export { ProcessLock, type ProcessKeyState, type ProcessHolder } from './process/process-lock.js';
export { ProcessGuard } from './process/guard.js';
export type { ProcessLockOptions } from './process/options.js';
