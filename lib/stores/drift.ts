import { invalidArgType, outOfRange } from '../common/errors.js';

/**
 * The default limit for how much faster the store's clock may run than the holder's, as a fraction. NTP
 * changes the speed of a clock by at most 500 ppm (RFC 5905), and the default is twice that.
 */
export const DEFAULT_DRIFT = 0.001;
/** The possible rounding error in milliseconds, because both clocks are read in whole milliseconds. */
const GRANULARITY = 1;

/**
 * Returns the TTL to send to the store. The lease in the store then outlasts `ttl` milliseconds on the
 * holder's clock, so the holder's own deadline always passes first.
 */
export function withDrift(ttl: number, drift: number): number {
  return ttl + Math.ceil(ttl * drift) + GRANULARITY;
}

/**
 * Converts a lease's remaining time on the store's clock to the time on the holder's clock that the holder
 * may rely on. Both are in milliseconds. The result is at least 1, because the lease is still held.
 */
export function withoutDrift(remaining: number, drift: number): number {
  return Math.max(1, Math.floor((remaining - GRANULARITY) / (1 + drift)));
}

export function checkDrift(drift: unknown): number {
  if (drift === undefined) return DEFAULT_DRIFT;
  if (typeof drift !== 'number') throw invalidArgType('options.drift', 'a number', drift);
  if (!(drift >= 0 && drift <= 1)) throw outOfRange('options.drift', 'a fraction from 0 to 1', drift);
  return drift;
}
