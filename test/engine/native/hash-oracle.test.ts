import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import xxhash from 'xxhash-addon';
import { seedFor } from '../../support/seed.js';

/** XXH3-64 with seed 0, computed by another package. */
function xxh3(bytes: Uint8Array): bigint {
  return xxhash.XXHash3.hash(Buffer.from(bytes)).readBigUInt64BE();
}

const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ unit: 'binary', maxLength: 1500 }),
  fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((c) => String.fromCharCode(c)), maxLength: 300 }),
);

describe('the stripe of a key on the native engine', () => {
  // Powers of two, primes, the smallest and the largest.
  const locks = [1, 2, 3, 1000, 1024, 65_537, 1_000_003, 1_048_576].map(
    (stripes) => new StripedLock({ engine: 'native', stripes }),
  );
  const agrees = (key: string | Uint8Array): void => {
    const hash = xxh3(typeof key === 'string' ? Buffer.from(key, 'utf8') : key);
    for (const lock of locks) expect(lock.stripeOf(key)).toBe(Number(hash % BigInt(lock.stripes)));
  };

  it('is XXH3-64 of a string’s UTF-8 bytes modulo the number of stripes', () => {
    const seed = seedFor('strings against xxhash-addon');
    fc.assert(fc.property(anyText, agrees), { seed, numRuns: 4000 });
  });

  it('is XXH3-64 of bytes modulo the number of stripes', () => {
    const seed = seedFor('bytes against xxhash-addon');
    fc.assert(fc.property(fc.uint8Array({ maxLength: 1500 }), agrees), { seed, numRuns: 4000 });
  });

  it('is so for every length across the limits at which XXH3 changes its algorithm', () => {
    for (let length = 0; length <= 1100; length++) {
      agrees(Uint8Array.from({ length }, (_, i) => i * 7 + length));
      agrees('k'.repeat(length));
      agrees('ж'.repeat(length >> 1));
    }
    agrees('x'.repeat(2 ** 20));
    agrees('鍵'.repeat(2 ** 19));
  });

  it('is so for long strings of one length in turn', () => {
    for (const length of [256, 257, 4096, 65_536, 65_537]) {
      const body = 'x'.repeat(length - 1);
      for (const last of ['a', 'b', 'b', 'a', 'ж', 'a']) agrees(body + last);
    }
  });
});

it('the stripe of an integer is the same on both engines', () => {
  const seed = seedFor('integers on both engines');
  const native = new StripedLock({ engine: 'native', stripes: 1_000_003 });
  const javascript = new StripedLock({ engine: 'javascript', stripes: 1_000_003 });
  const same = (key: number): void => {
    expect(native.stripeOf(key)).toBe(javascript.stripeOf(key));
  };
  fc.assert(fc.property(fc.maxSafeInteger(), same), { seed, numRuns: 3000 });
  fc.assert(fc.property(fc.integer(), same), { seed, numRuns: 3000 });
});
