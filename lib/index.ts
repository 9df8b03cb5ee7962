/**
 * Locks on keys for threads, and leases with fencing tokens.
 *
 * @module stripelock
 */

export type { BaseLock } from './lock/base-lock.js';
export { StripedLock } from './lock/striped-lock.js';
export { KeyedLock } from './lock/keyed-lock.js';
export { Guard } from './lock/guard.js';
export { DeadlockError, LockError, LockTimeoutError } from './common/errors.js';
export { FencingGate, type FencingGateOptions } from './lease/fencing-gate.js';
export { Lease } from './lease/lease.js';
export { LeaseLostError, LeaseStoreError, StaleTokenError } from './lease/contract/errors.js';
export { deserializeError, serializeError } from './lease/contract/sent-errors.js';
export { answerWithin } from './lease/contract/replies.js';
export {
  LeaderElection,
  type ElectionGround,
  type ElectionHold,
  type LeaderElectionOptions,
} from './lease/leader-election.js';
export { LeaseManager } from './lease/manager.js';
export { revokeLease } from './lease/revoke.js';
export { MemoryLeaseStore, type MemoryLeaseStoreOptions } from './lease/memory-store.js';
export type {
  AbandonmentLeaseStore,
  AdvancingClock,
  Clock,
  ClosableLeaseStore,
  ExactLeaseStore,
  FencingToken,
  GrantDetails,
  InfoLeaseState,
  InfoLeaseStore,
  LeaseState,
  LeaseStore,
  LeaseStoreSource,
  ReopenableLeaseStore,
  WakingLeaseStore,
} from './lease/contract/lease-store.js';
export type { ListedLease, ListingLeaseStore, ListLeasesOptions } from './lease/contract/listing.js';
export type { SeveralKeysLeaseStore } from './lease/contract/several-keys.js';
export type { LeaveDetails, SharedGrant, SharedLeaseStore } from './lease/contract/shared.js';
export type {
  AcquireLeaseOptions,
  LeaseCloseOptions,
  LeaseExtras,
  LeaseManagerOptions,
  LeaseOptions,
  LeaseWarning,
  LeaseWarningOptions,
  TryAcquireLeaseOptions,
  LeaseRenewOptions,
  WarningLeaseManagerOptions,
  WithLeaseOptions,
} from './lease/contract/options.js';
export type {
  AbandonedMessage,
  AcquireMessage,
  DeadlockMessage,
  LeaseAcquiredMessage,
  LeaseFailedMessage,
  LeaseLostMessage,
  LeaseMessage,
  LeaseReleasedMessage,
  LeaseRenewedMessage,
  LockMessage,
  TimeoutMessage,
  WaitMessage,
} from './common/diagnostics.js';
export type {
  AcquireOptions,
  AsyncAcquireOptions,
  DrainedOptions,
  HandleOf,
  HostUrl,
  KeyedLockHandle,
  KeyedLockMode,
  KeyedLockOptions,
  KeyedLockStats,
  KeyState,
  LockKey,
  LockMode,
  OneKeyState,
  PermitsHaveNoSharedMode,
  StripeState,
  StripedLockHandle,
  StripedLockOptions,
  StripedLockStats,
  SyncResult,
} from './common/types.js';
