import { StripedLock } from 'stripelock';

/** A lock without a timeout: an undetected deadlock lasts forever. */
export function newLock(stripes = 64): StripedLock {
  return new StripedLock({ engine: 'native', stripes, name: 'knots', timeout: Infinity });
}
