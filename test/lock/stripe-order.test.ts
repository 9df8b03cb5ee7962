import { describe, expect, it } from 'vitest';
import { ordered } from '../../unbundled/lock/stripe-order.js';
import { seedFor } from '../support/seed.js';
import { below, randomFrom } from '../workers/random.mjs';

const MAX_STRIPES = 1_048_576;

function expected(stripes: readonly number[]): number[] {
  return [...new Set(stripes)].sort((a, b) => a - b);
}

describe('the stripes of several keys', () => {
  // The 0-1 principle: a network that sorts every list of zeros and ones sorts every list.
  it('are sorted, whatever their order, for each number that a network sorts', () => {
    for (let count = 0; count <= 8; count++) {
      for (let bits = 0; bits < 2 ** count; bits++) {
        // Different numbers, so that duplicates do not hide an exchange that is missing.
        const stripes = Array.from({ length: count }, (_, i) => ((bits >> i) & 1) * 100 + i);
        expect(ordered(stripes.slice()), stripes.join()).toEqual(expected(stripes));
        const same = stripes.map((stripe) => (stripe >= 100 ? MAX_STRIPES - 1 : 0));
        expect(ordered(same.slice()), same.join()).toEqual(expected(same));
      }
    }
  });

  it('are sorted without duplicates, however many there are', () => {
    const random = randomFrom(seedFor('order of stripes'));
    for (let round = 0; round < 20_000; round++) {
      const range = [2, 10, 1024, MAX_STRIPES][below(random, 4)]!;
      const stripes = Array.from({ length: below(random, 60) }, () => below(random, range));
      expect(ordered(stripes.slice()), stripes.join()).toEqual(expected(stripes));
    }
  });
});
