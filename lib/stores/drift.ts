import { invalidArgType, outOfRange } from '../common/errors.js';

/**
 * How much faster the store's clock may run than the holder's: 1 in 1000, twice as much as time synchronisation
 * speeds up a clock to catch up (500 ppm, RFC 5905).
 */
export const DEFAULT_DRIFT = 0.001;
/** Milliseconds: both clocks are read in whole milliseconds. */
const GRANULARITY = 1;

/**
 * The TTL to ask the store for, so that its lease lasts for more than `ttl` milliseconds on the holder's clock. The
 * holder's own deadline then comes first.
 */
export function withDrift(ttl: number, drift: number): number {
  return ttl + Math.ceil(ttl * drift) + GRANULARITY;
}

/**
 * `remaining`: milliseconds until the store ends a lease. Returns how many of them its holder may count on. At least 1,
 * as it is still held.
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
