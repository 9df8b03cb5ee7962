import { randomInt } from 'node:crypto';

/**
 * Returns a new seed for a random test, and prints it. Set STRIPELOCK_SEED to it to replay a failure.
 */
export function seedFor(test: string): number {
  const given = process.env['STRIPELOCK_SEED'];
  const seed = given === undefined || given === '' ? randomInt(2 ** 31) : Number(given);
  if (!Number.isInteger(seed)) throw new RangeError(`STRIPELOCK_SEED=${String(given)} is not an integer`);
  console.log(`${test}: STRIPELOCK_SEED=${seed}`);
  return seed;
}
