import diagnostics_channel from 'node:diagnostics_channel';
import type { LockKey, LockMode } from './types.js';

/**
 * The members of all messages of locks, and of the spans of leases. The acquiring thread publishes the
 * messages.
 */
export interface LockMessage {
  /** The name of the lock, or of the `LeaseManager`. */
  readonly lock: string;
  /** The keys of the acquisition, as they were passed. */
  readonly keys: readonly LockKey[];
  /** The mode of the acquisition. */
  readonly mode: LockMode;
  /**
   * Whether the acquisition blocked its thread, or waited on the event loop. Acquisitions of leases never
   * block.
   */
  readonly kind: 'sync' | 'async';
  /** The id of the thread that acquires. */
  readonly threadId: number;
}

/**
 * `stripelock:wait`: the wait of an acquisition has ended. The acquiring thread publishes one message for
 * each acquisition that `stats()` counts as `contended`, unless the thread or its script is ended during the
 * wait.
 */
export interface WaitMessage extends LockMessage {
  /**
   * The key for which the acquisition waited: the first key that was not free. Undefined if the wait began
   * before the channel had a subscriber.
   */
  readonly key: LockKey | undefined;
  /** The wait in milliseconds. */
  readonly waited: number;
  /**
   * How the wait ended. `aborted` means that the acquisition's signal was aborted, or its `ProcessLock` closed. `failed`
   * means that the file of the `ProcessLock` can no longer be used.
   */
  readonly outcome: 'granted' | 'timeout' | 'deadlock' | 'aborted' | 'failed';
}

/** `stripelock:timeout`: an acquisition timed out. */
export interface TimeoutMessage extends LockMessage {
  /** The timeout in milliseconds. */
  readonly timeout: number;
  /** The stripe for which the acquisition waited when it timed out. */
  readonly stripe: number;
  /** Ids of the threads that held the stripe, as far as known. */
  readonly holders: readonly number[];
}

/** `stripelock:deadlock`: an acquisition was refused because its wait could never have ended. */
export interface DeadlockMessage extends LockMessage {
  /** Ids of the threads in the cycle. `threads[i]` waits for `stripes[i]`, which the next thread holds. */
  readonly threads: readonly number[];
  /** The stripe that each of the threads waits for. */
  readonly stripes: readonly number[];
}

/**
 * `stripelock:abandoned`: an acquisition got an abandoned stripe: the thread of an earlier holder ended
 * without releasing the stripe.
 */
export interface AbandonedMessage extends LockMessage {
  /** All stripes of the acquisition. */
  readonly stripes: readonly number[];
}

/**
 * `tracingChannel('stripelock:acquire')`: one object per acquisition, published at each step from the call to
 * the outcome, as in Node's tracing channels. `acquire`, `withLock` and the acquisitions of a `LeaseManager`
 * are traced as promises, the other methods of locks as calls. Nothing is published unless `start` has a
 * subscriber.
 */
export interface AcquireMessage extends LockMessage {
  /**
   * The guard or the lease. For a call, set from `end` on; for a promise, set from `asyncStart` on. Undefined
   * if `tryAcquire`, or `withLease` with `ifAvailable`, did not get the keys.
   */
  readonly result?: unknown;
  /** The error with which the acquisition failed. Set from `error` on. */
  readonly error?: unknown;
}

/** Without subscribers, publishing costs only a check of `hasSubscribers`. The fast path publishes nothing. */
export const channels = {
  wait: diagnostics_channel.channel('stripelock:wait'),
  timeout: diagnostics_channel.channel('stripelock:timeout'),
  deadlock: diagnostics_channel.channel('stripelock:deadlock'),
  abandoned: diagnostics_channel.channel('stripelock:abandoned'),
};

export const acquireTracing = diagnostics_channel.tracingChannel<AcquireMessage>('stripelock:acquire');
/** The channel whose subscribers the fast path checks. */
export const acquireStart = acquireTracing.start;

/** A copy of the caller's unchecked keys, for a message. Empty if reading the caller's list throws. */
export function shownKeys<K>(keys: K | readonly K[]): readonly K[] {
  try {
    return Array.isArray(keys) ? [...(keys as readonly K[])] : [keys as K];
  } catch {
    return [];
  }
}

/**
 * The members of most messages on the `stripelock:lease:` channels. The holding thread publishes the
 * messages.
 */
export interface LeaseMessage {
  /** The key of the lease. */
  readonly key: string;
  /** The token of the lease. */
  readonly token: bigint;
  /** The holder's name, as the store knows it. */
  readonly holder: string;
  /** The id of the holding thread. */
  readonly threadId: number;
}

/** `stripelock:lease:acquired`: a lease was granted. */
export interface LeaseAcquiredMessage extends LeaseMessage {
  /** The TTL in milliseconds. */
  readonly ttl: number;
  /** Milliseconds from the call to the grant. */
  readonly waited: number;
}

/** `stripelock:lease:renewed`: a lease was extended. */
export interface LeaseRenewedMessage extends LeaseMessage {
  /** The TTL in milliseconds. */
  readonly ttl: number;
}

/** `stripelock:lease:lost`: a lease ended without being released. */
export interface LeaseLostMessage extends LeaseMessage {
  /** The reason, as readable text. */
  readonly reason: string;
}

/** `stripelock:lease:released`: the holder of a lease released it. */
export interface LeaseReleasedMessage extends LeaseMessage {
  /** Milliseconds from the grant to the release. */
  readonly held: number;
}

/** `stripelock:lease:failed`: the store failed or did not answer in time. */
export interface LeaseFailedMessage {
  /** The key of the lease. */
  readonly key: string;
  /** The operation that failed. */
  readonly operation: 'acquire' | 'renew' | 'release';
  /** A LeaseStoreError whose cause is the store's own error, or a LockError with another code that the store chose. */
  readonly error: Error;
  /**
   * Milliseconds until the local deadline of the lease. Undefined if no lease is held, as for an acquisition or a late
   * grant.
   */
  readonly remaining: number | undefined;
  /** The token of the lease. Undefined if no lease is held. */
  readonly token: bigint | undefined;
  /** The name of the owner that requested the operation, as the store knows it. */
  readonly holder: string;
  /** The id of the thread that requested the operation. */
  readonly threadId: number;
}

export const leaseChannels = {
  acquired: diagnostics_channel.channel('stripelock:lease:acquired'),
  renewed: diagnostics_channel.channel('stripelock:lease:renewed'),
  lost: diagnostics_channel.channel('stripelock:lease:lost'),
  released: diagnostics_channel.channel('stripelock:lease:released'),
  failed: diagnostics_channel.channel('stripelock:lease:failed'),
};

/**
 * `stripelock:web-locks`: the progress of a request for a name. The requesting thread publishes the message.
 */
export interface WebLockMessage {
  /**
   * `granted`: the callback of the request is called next. `unavailable`: the request was refused because of
   * `ifAvailable`. `aborted`: the request's signal was aborted. `timeout`: the request timed out. `released`:
   * the callback has ended. `stolen`: another request stole the lock.
   */
  readonly event: 'granted' | 'unavailable' | 'aborted' | 'timeout' | 'released' | 'stolen';
  /** The name of the manager; empty for `locks`. */
  readonly manager: string;
  /** The requested name. */
  readonly name: string;
  /** The mode of the request. */
  readonly mode: LockMode;
  /**
   * For `released` and `stolen`: milliseconds since the grant. For other events: milliseconds since the
   * request. Undefined if the channel had no subscriber at the start of this period.
   */
  readonly elapsed: number | undefined;
  /** The id of the requesting thread. */
  readonly threadId: number;
}

export const webLockChannel = diagnostics_channel.channel('stripelock:web-locks');
