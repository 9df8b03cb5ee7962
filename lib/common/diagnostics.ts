import diagnostics_channel from 'node:diagnostics_channel';
import type { LockKey, LockMode } from './types.js';

/** What all messages have in common. The thread that acquires publishes them; `threadId` is its id. */
export interface LockMessage {
  /** The lock's name. */
  readonly lock: string;
  /** The keys of the acquisition, as they were passed. */
  readonly keys: readonly LockKey[];
  /** The mode of the acquisition. */
  readonly mode: LockMode;
  /** Whether the acquisition blocked its thread, or waited on the event loop. */
  readonly kind: 'sync' | 'async';
  /** The id of the thread that acquires. */
  readonly threadId: number;
}

/**
 * `stripelock:wait`: an acquisition that had to wait has ended. One message for each that `stats()` counts as `contended`, on
 * its own thread.
 */
export interface WaitMessage extends LockMessage {
  /** Which of the keys it waited for: the first that was not free. Undefined if it began before anybody listened. */
  readonly key: LockKey | undefined;
  /** Milliseconds. */
  readonly waited: number;
  /** How the wait ended. `aborted`: by its signal. */
  readonly outcome: 'granted' | 'timeout' | 'deadlock' | 'aborted';
}

/** `stripelock:timeout`: an acquisition ran out of time. */
export interface TimeoutMessage extends LockMessage {
  /** The time allowed, in milliseconds. */
  readonly timeout: number;
  /** The stripe that was not free in time. */
  readonly stripe: number;
  /** Ids of the threads that held the stripe, as far as known. */
  readonly holders: readonly number[];
}

/** `stripelock:deadlock`: an acquisition was refused, because its wait could never have ended. */
export interface DeadlockMessage extends LockMessage {
  /** Ids of the threads of the cycle. `threads[i]` waits for `stripes[i]`, which the next thread holds. */
  readonly threads: readonly number[];
  /** What each of the threads waits for. */
  readonly stripes: readonly number[];
}

/** `stripelock:abandoned`: an acquisition was granted a stripe whose earlier holder's thread ended without releasing. */
export interface AbandonedMessage extends LockMessage {
  /** All stripes of the acquisition. */
  readonly stripes: readonly number[];
}

/**
 * `tracingChannel('stripelock:acquire')`: one object for each acquisition, from its call to its outcome, by Node's convention
 * for tracing channels. `acquire` and `withLock` publish it as a promise, the others as a call. They do so while `start` has a
 * subscriber.
 */
export interface AcquireMessage extends LockMessage {
  /** The guard, from `end` of a call on, or from `asyncStart` of a promise on. Undefined if `tryAcquire` got nothing. */
  readonly result?: unknown;
  /** What the acquisition failed with, from `error` on. */
  readonly error?: unknown;
}

/** While nobody listens, publishing costs only a check of `hasSubscribers`. The fast path publishes nothing. */
export const channels = {
  wait: diagnostics_channel.channel('stripelock:wait'),
  timeout: diagnostics_channel.channel('stripelock:timeout'),
  deadlock: diagnostics_channel.channel('stripelock:deadlock'),
  abandoned: diagnostics_channel.channel('stripelock:abandoned'),
};

export const acquireTracing = diagnostics_channel.tracingChannel<AcquireMessage>('stripelock:acquire');
/** The fast path asks it whether anybody listens. */
export const acquireStart = acquireTracing.start;

/** What the messages of the `stripelock:lease:` channels have in common. The thread that holds publishes them. */
export interface LeaseMessage {
  /** The key of the lease. */
  readonly key: string;
  /** The token of the lease. */
  readonly token: bigint;
  /** Who holds it, as the store knows it. */
  readonly holder: string;
  /** The id of the thread that holds. */
  readonly threadId: number;
}

/** `stripelock:lease:acquired`: a lease was granted. */
export interface LeaseAcquiredMessage extends LeaseMessage {
  /** Milliseconds. */
  readonly ttl: number;
  /** Milliseconds from the call to the grant. */
  readonly waited: number;
}

/** `stripelock:lease:renewed`: a lease was extended. */
export interface LeaseRenewedMessage extends LeaseMessage {
  /** Milliseconds. */
  readonly ttl: number;
}

/** `stripelock:lease:lost`: a lease ended without being released. */
export interface LeaseLostMessage extends LeaseMessage {
  /** The reason, as text for people. */
  readonly reason: string;
}

/** `stripelock:lease:released`: the holder of a lease released it. */
export interface LeaseReleasedMessage extends LeaseMessage {
  /** Milliseconds since it was granted. */
  readonly held: number;
}

/** `stripelock:lease:failed`: the store failed, or did not answer in time. */
export interface LeaseFailedMessage {
  /** The key of the lease. */
  readonly key: string;
  /** What the store was asked to do. */
  readonly operation: 'acquire' | 'renew' | 'release';
  /** A LeaseStoreError, whose cause is the store's own; or a LockError of another code that the store has given itself. */
  readonly error: Error;
  /**
   * Milliseconds until the local deadline of the lease. Undefined if no lease is held: for an acquisition, or a late
   * grant.
   */
  readonly remaining: number | undefined;
  /** The token of the lease. Undefined if no lease is held. */
  readonly token: bigint | undefined;
  /** Who asked, as the store knows it. */
  readonly holder: string;
  /** The id of the thread that asked. */
  readonly threadId: number;
}

export const leaseChannels = {
  acquired: diagnostics_channel.channel('stripelock:lease:acquired'),
  renewed: diagnostics_channel.channel('stripelock:lease:renewed'),
  lost: diagnostics_channel.channel('stripelock:lease:lost'),
  released: diagnostics_channel.channel('stripelock:lease:released'),
  failed: diagnostics_channel.channel('stripelock:lease:failed'),
};

/** `stripelock:web-locks`: what became of a request for a name. The thread that made the request publishes it. */
export interface WebLockMessage {
  /**
   * `granted`: its callback is called next. `unavailable`: refused, as `ifAvailable` asks. `aborted`: by its signal.
   * `timeout`: it ran out of time. `released`: its callback has ended. `stolen`: another request took the lock from it.
   */
  readonly event: 'granted' | 'unavailable' | 'aborted' | 'timeout' | 'released' | 'stolen';
  /** The name of the manager; empty for `locks`. */
  readonly manager: string;
  /** What was asked for. */
  readonly name: string;
  /** The mode of the request. */
  readonly mode: LockMode;
  /**
   * Milliseconds: since the grant for `released` and `stolen`, else since the request. Undefined if nobody listened
   * then.
   */
  readonly elapsed: number | undefined;
  /** The id of the thread that made the request. */
  readonly threadId: number;
}

export const webLockChannel = diagnostics_channel.channel('stripelock:web-locks');
