import { threadId } from 'node:worker_threads';
import { leaseChannels, type LeaseMessage } from '../../common/diagnostics.js';
import type { LockError } from '../../common/errors.js';
import type { FencingToken } from '../contract/lease-store.js';
import type { LeaseTerms } from '../contract/options.js';

/** What the diagnostics channels tell of a hold. */
export interface Announced {
  readonly key: string;
  readonly token: FencingToken;
  readonly owner: string;
  readonly since: number;
  readonly expiresAt: number;
  readonly terms: LeaseTerms;
}

/** Callers first check that there is a subscriber, as with the other functions that take no time. */
export function announceGrant(hold: Announced, waited: number): void {
  leaseChannels.acquired.publish({ ...messageOf(hold), ttl: hold.terms.ttl, waited });
}

export function announceRelease(hold: Announced, now: number): void {
  leaseChannels.released.publish({ ...messageOf(hold), held: now - hold.since });
}

export function announceLoss(hold: Announced, reason: string): void {
  if (leaseChannels.lost.hasSubscribers) leaseChannels.lost.publish({ ...messageOf(hold), reason });
}

export function announceRenewal(hold: Announced, ttl: number): void {
  if (leaseChannels.renewed.hasSubscribers) leaseChannels.renewed.publish({ ...messageOf(hold), ttl });
}

export function announceFailure(
  hold: Announced,
  operation: 'renew' | 'release',
  error: LockError,
  now: number,
): void {
  if (!leaseChannels.failed.hasSubscribers) return;
  const remaining = hold.expiresAt - now;
  leaseChannels.failed.publish({ ...messageOf(hold), operation, error, remaining });
}

function messageOf({ key, token, owner }: Announced): LeaseMessage {
  return { key, token, holder: owner, threadId };
}
