import diagnostics_channel from 'node:diagnostics_channel';
import type { LockKey, LockMode } from './types.js';

/** What all messages have in common. Published on the thread that acquires, whose id it carries. */
export interface LockMessage {
  /** The lock's name. */
  readonly lock: string;
  readonly keys: readonly LockKey[];
  readonly mode: LockMode;
  readonly kind: 'sync' | 'async';
  readonly threadId: number;
}

/** `stripelock:wait`: an acquisition that could not be had at once has come to its end. */
export interface WaitMessage extends LockMessage {
  /** Milliseconds. */
  readonly waited: number;
  readonly outcome: 'granted' | 'timeout' | 'deadlock' | 'aborted';
}

/** `stripelock:timeout`: one ran out of time. */
export interface TimeoutMessage extends LockMessage {
  /** The time allowed, in milliseconds. */
  readonly timeout: number;
  /** The stripe that could not be had, and the threads that held it as far as known. */
  readonly stripe: number;
  readonly holders: readonly number[];
}

/** `stripelock:deadlock`: one was refused, since waiting could never have ended. */
export interface DeadlockMessage extends LockMessage {
  /** `threads[i]` waits for `stripes[i]`, which the next thread holds. */
  readonly threads: readonly number[];
  readonly stripes: readonly number[];
}

/** `stripelock:abandoned`: one was granted a stripe whose earlier holder's thread ended without releasing. */
export interface AbandonedMessage extends LockMessage {
  readonly stripes: readonly number[];
}

/** Publishing costs nothing but a look at `hasSubscribers` while nobody listens, and none of it is on the fast path. */
export const channels = {
  wait: diagnostics_channel.channel('stripelock:wait'),
  timeout: diagnostics_channel.channel('stripelock:timeout'),
  deadlock: diagnostics_channel.channel('stripelock:deadlock'),
  abandoned: diagnostics_channel.channel('stripelock:abandoned'),
};

/** What the messages of the `stripelock:lease:` channels have in common. Published on the thread that holds. */
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

/** `stripelock:lease:released`: its holder has given it up. */
export interface LeaseReleasedMessage extends LeaseMessage {
  /** Milliseconds since it was granted. */
  readonly held: number;
}

/** `stripelock:lease:failed`: the store failed, or did not answer in its time. */
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
