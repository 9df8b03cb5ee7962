/**
 * Locks on keys between the processes of one machine, freed by the kernel when a process ends.
 *
 * @module stripelock/process
 */

export { ProcessLock, type ProcessKeyState, type ProcessHolder } from './process/process-lock.js';
export { ProcessGuard } from './process/guard.js';
export type { ProcessLockOptions } from './process/options.js';
