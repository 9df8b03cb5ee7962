import { randomInt } from 'node:crypto';

/**
 * The seed of a random test: a new one each time, printed, so that a failure can be replayed by setting
 * STRIPELOCK_SEED to it.
 */
export function seedFor(test: string): number {
  const given = process.env['STRIPELOCK_SEED'];
  const seed = given === undefined || given === '' ? randomInt(2 ** 31) : Number(given);
  if (!Number.isInteger(seed)) throw new RangeError(`STRIPELOCK_SEED=${String(given)} is not an integer`);
  console.log(`${test}: STRIPELOCK_SEED=${seed}`);
  return seed;
}
