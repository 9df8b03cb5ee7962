export { StripedLock } from './striped-lock.js';
export { Guard } from './guard.js';
export { DeadlockError, LockError, LockTimeoutError } from './errors.js';
export type {
  AbandonedMessage,
  DeadlockMessage,
  LockMessage,
  TimeoutMessage,
  WaitMessage,
} from './diagnostics.js';
export type {
  AcquireOptions,
  AsyncAcquireOptions,
  LockKey,
  LockMode,
  StripedLockHandle,
  StripedLockOptions,
  StripedLockStats,
  StripeState,
} from './types.js';
