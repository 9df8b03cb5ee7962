import { describe, expect, it } from 'vitest';
import { StripeIndex } from '../../unbundled/lock/stripe-index.js';

const STRIPES = 1000;
/** Stands in for a hash. */
const hashOf = (key: string): number => Number(key.slice(key.indexOf(':') + 1)) % STRIPES;

function counted(): { index: StripeIndex; hashed: () => number } {
  let calls = 0;
  const index = new StripeIndex(STRIPES, (key) => {
    calls++;
    return hashOf(key as string);
  });
  const hashed = (): number => {
    const before = calls;
    calls = 0;
    return before;
  };
  return { index, hashed };
}

const key = (number: number): string => `key:${number}`;

describe('the stripes of strings', () => {
  it('are those of the hash, whether cached, evicted or never cached', () => {
    const { index } = counted();
    let fresh = 0;
    for (let i = 0; i < 60_000; i++) {
      // In turn: few keys, more keys than the cache holds, and always new keys.
      const phase = Math.floor(i / 9000) % 3;
      const asked = key(phase === 0 ? i % 50 : phase === 1 ? (i * 7919) % 20_000 : 100_000 + fresh++);
      expect(index.stripeOf(asked, 'key')).toBe(hashOf(asked));
    }
  });

  it('are hashed no more once keys are used again and again', () => {
    for (const keys of [1, 8, 9, 16, 17, 64, 65, 1000, 4096, 5000, 20_000, 24_000]) {
      const { index, hashed } = counted();
      for (let i = 0; i < keys; i++) index.stripeOf(key(i), 'key');
      expect(hashed()).toBe(keys);
      // Some are forgotten while the cache grows.
      for (let i = 0; i < keys; i++) index.stripeOf(key(i), 'key');
      expect(hashed(), `of ${keys} keys`).toBeLessThan(0.2 * keys + 1);
      for (let i = 0; i < 2 * keys; i++) index.stripeOf(key(i % keys), 'key');
      expect(hashed(), `of ${keys} keys`).toBe(0);
    }
  });

  it('are cached for long strings only as far as there is room for their characters', () => {
    const { index, hashed } = counted();
    const long = (number: number): string => `${'k'.repeat(240)}:${number}`;
    // 2 MiB in both generations together are 8738 of these.
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < 12_000; i++) expect(index.stripeOf(long(i), 'key')).toBe(hashOf(long(i)));
    }
    expect(hashed()).toBe(36_000);
  });

  it('are hashed once for each new key, and keys in use are cached again after many new ones', () => {
    const { index, hashed } = counted();
    for (let i = 0; i < 100_000; i++) index.stripeOf(key(i), 'key');
    expect(hashed()).toBe(100_000);
    for (let i = 0; i < 20_000; i++) index.stripeOf(key(1_000_000 + (i % 50)), 'key');
    hashed();
    for (let i = 0; i < 20_000; i++) index.stripeOf(key(1_000_000 + (i % 50)), 'key');
    expect(hashed()).toBe(0);
  });

  it('are cached in the end for as many keys as the cache has room for', () => {
    const { index, hashed } = counted();
    for (let i = 0; i < 100_000; i++) index.stripeOf(key(i), 'key');
    for (let i = 0; i < 2_000_000; i++) index.stripeOf(key(i % 8000), 'key');
    hashed();
    for (let i = 0; i < 8000; i++) index.stripeOf(key(i), 'key');
    expect(hashed()).toBe(0);
  });

  it('are right after the hash has thrown', () => {
    let failing = false;
    const index = new StripeIndex(STRIPES, (text) => {
      if (failing) throw new RangeError('Maximum call stack size exceeded');
      return hashOf(text as string);
    });
    for (let i = 0; i < 30_000; i++) {
      failing = i % 3 === 0;
      const asked = key(i);
      if (failing) expect(() => index.stripeOf(asked, 'key')).toThrow(RangeError);
      failing = false;
      expect(index.stripeOf(asked, 'key')).toBe(hashOf(asked));
    }
  });
});
