import { StripedLock } from 'stripelock';

/** A lock without a timeout: a deadlock that nobody finds lasts for ever. */
export function newLock(stripes = 64): StripedLock {
  return new StripedLock({ engine: 'native', stripes, name: 'knots', timeout: Infinity });
}
