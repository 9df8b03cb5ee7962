import { invalidArgType, outOfRange } from '../common/errors.js';

/**
 * How much faster the store's clock may run than the holder's: 1 in 1000, twice as fast as time synchronisation lets
 * clocks run to catch up (500 ppm, RFC 5905).
 */
export const DEFAULT_DRIFT = 0.001;
/** Milliseconds: both clocks are read in whole ones. */
const GRANULARITY = 1;

/**
 * What the store is asked for where its lease must last for `ttl` milliseconds of the holder's clock: never less, so
 * that the holder's own deadline comes first.
 */
export function withDrift(ttl: number, drift: number): number {
  return ttl + Math.ceil(ttl * drift) + GRANULARITY;
}

/** Of the milliseconds until the store ends it, those that its holder may count on. At least 1: it is held still. */
export function withoutDrift(remaining: number, drift: number): number {
  return Math.max(1, Math.floor((remaining - GRANULARITY) / (1 + drift)));
}

export function checkDrift(drift: unknown): number {
  if (drift === undefined) return DEFAULT_DRIFT;
  if (typeof drift !== 'number') throw invalidArgType('options.drift', 'a number', drift);
  if (!(drift >= 0 && drift <= 1)) throw outOfRange('options.drift', 'a fraction from 0 to 1', drift);
  return drift;
}
