import diagnostics_channel from 'node:diagnostics_channel';
import type { LockKey, LockMode } from './types.js';

/** What all messages have in common. The thread that acquires publishes them; `threadId` is its id. */
export interface LockMessage {
  /** The lock's name. */
  readonly lock: string;
  readonly keys: readonly LockKey[];
  readonly mode: LockMode;
  readonly kind: 'sync' | 'async';
  readonly threadId: number;
}

/** `stripelock:wait`: an acquisition that had to wait has ended. */
export interface WaitMessage extends LockMessage {
  /** Milliseconds. */
  readonly waited: number;
  readonly outcome: 'granted' | 'timeout' | 'deadlock' | 'aborted';
}

/** `stripelock:timeout`: an acquisition ran out of time. */
export interface TimeoutMessage extends LockMessage {
  /** The time allowed, in milliseconds. */
  readonly timeout: number;
  /** The stripe that was not free in time, and the ids of the threads that held it, as far as known. */
  readonly stripe: number;
  readonly holders: readonly number[];
}

/** `stripelock:deadlock`: an acquisition was refused, because its wait could never have ended. */
export interface DeadlockMessage extends LockMessage {
  /** `threads[i]` waits for `stripes[i]`, which the next thread holds. */
  readonly threads: readonly number[];
  readonly stripes: readonly number[];
}

/** `stripelock:abandoned`: one was granted a stripe whose earlier holder's thread ended without releasing. */
export interface AbandonedMessage extends LockMessage {
  readonly stripes: readonly number[];
}

/** While nobody listens, publishing costs only a check of `hasSubscribers`. The fast path publishes nothing. */
export const channels = {
  wait: diagnostics_channel.channel('stripelock:wait'),
  timeout: diagnostics_channel.channel('stripelock:timeout'),
  deadlock: diagnostics_channel.channel('stripelock:deadlock'),
  abandoned: diagnostics_channel.channel('stripelock:abandoned'),
};

/** What the messages of the `stripelock:lease:` channels have in common. The thread that holds publishes them. */
export interface LeaseMessage {
  readonly key: string;
  readonly token: bigint;
  readonly holder: string;
  readonly threadId: number;
}

/** `stripelock:lease:acquired`: a lease was granted. */
export interface LeaseAcquiredMessage extends LeaseMessage {
  /** Milliseconds. */
  readonly ttl: number;
  /** Milliseconds from the call to the grant. */
  readonly waited: number;
}

/** `stripelock:lease:renewed`: it was extended. */
export interface LeaseRenewedMessage extends LeaseMessage {
  /** Milliseconds. */
  readonly ttl: number;
}

/** `stripelock:lease:lost`: it ended without being released. */
export interface LeaseLostMessage extends LeaseMessage {
  readonly reason: string;
}

/** `stripelock:lease:released`: its holder released it. */
export interface LeaseReleasedMessage extends LeaseMessage {
  /** Milliseconds since it was granted. */
  readonly held: number;
}

/** `stripelock:lease:failed`: the store failed, or did not answer in time. */
export interface LeaseFailedMessage {
  readonly key: string;
  readonly operation: 'acquire' | 'renew' | 'release';
  /** A LeaseStoreError; its cause is the store's own. */
  readonly error: Error;
  /** Milliseconds until the local deadline of the lease. Undefined where none is held: of an acquisition, or a late grant. */
  readonly remaining: number | undefined;
  readonly token: bigint | undefined;
  readonly holder: string;
  readonly threadId: number;
}

export const leaseChannels = {
  acquired: diagnostics_channel.channel('stripelock:lease:acquired'),
  renewed: diagnostics_channel.channel('stripelock:lease:renewed'),
  lost: diagnostics_channel.channel('stripelock:lease:lost'),
  released: diagnostics_channel.channel('stripelock:lease:released'),
  failed: diagnostics_channel.channel('stripelock:lease:failed'),
};
