import { threadId } from 'node:worker_threads';
import { leaseChannels, type LeaseMessage } from '../../common/diagnostics.js';
import type { LockError } from '../../common/errors.js';
import type { Hold } from './hold.js';

/** Callers first check that there is a subscriber, as with the other functions that take no time. */
export function announceGrant(hold: Hold, waited: number): void {
  leaseChannels.acquired.publish({ ...messageOf(hold), ttl: hold.terms.ttl, waited });
}

export function announceRelease(hold: Hold, now: number): void {
  leaseChannels.released.publish({ ...messageOf(hold), held: now - hold.since });
}

export function announceLoss(hold: Hold, reason: string): void {
  if (leaseChannels.lost.hasSubscribers) leaseChannels.lost.publish({ ...messageOf(hold), reason });
}

export function announceRenewal(hold: Hold, ttl: number): void {
  if (leaseChannels.renewed.hasSubscribers) leaseChannels.renewed.publish({ ...messageOf(hold), ttl });
}

export function announceFailure(
  hold: Hold,
  operation: 'renew' | 'release',
  error: LockError,
  now: number,
): void {
  if (!leaseChannels.failed.hasSubscribers) return;
  const remaining = hold.expiresAt - now;
  leaseChannels.failed.publish({ ...messageOf(hold), operation, error, remaining });
}

function messageOf({ key, token, owner }: Hold): LeaseMessage {
  return { key, token, holder: owner, threadId };
}
