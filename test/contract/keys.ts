import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Agent } from '../support/agent.js';
import type { Suite } from '../support/engine.js';
import { seedFor } from '../support/seed.js';
import { sameTextDifferently } from '../support/strings.js';

const STRIPES = 65_537;

/** Any string, lone surrogates included. */
const anyString = fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((c) => String.fromCharCode(c)) });

export const keysSuite: Suite = (makeLock) => {
  describe('keys', () => {
    it('that are equal strings share a stripe, however the strings are represented', () => {
      const lock = makeLock({ stripes: STRIPES });
      for (const text of [
        '',
        'k',
        'key',
        'müller',
        '鍵'.repeat(5),
        '🔑🗝',
        'x'.repeat(300),
        'ü'.repeat(300),
      ]) {
        const variants = sameTextDifferently(text);
        const stripe = lock.stripeOf(text);
        for (const [how, variant] of Object.entries(variants)) {
          expect(lock.stripeOf(variant), how).toBe(stripe);
          const guard = lock.acquireSync(variant);
          expect(lock.tryAcquire(text), how).toBeUndefined();
          guard.release();
        }
      }
    });

    it('that are strings mean the same as their UTF-8 bytes', () => {
      const lock = makeLock({ stripes: STRIPES });
      const seed = seedFor('strings as bytes');
      const same = (text: string): void => {
        expect(lock.stripeOf(text)).toBe(lock.stripeOf(Buffer.from(text, 'utf8')));
      };
      fc.assert(fc.property(anyString, same), { seed, numRuns: 500 });
      fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 600 }), same), { seed, numRuns: 200 });
      // The last long string of a length is remembered.
      for (const last of 'abba') same('x'.repeat(5000) + last);
      const guard = lock.acquireSync('ключ');
      expect(lock.tryAcquire(new TextEncoder().encode('ключ'))).toBeUndefined();
      guard.release();
    });

    it('with lone surrogates are hashed with U+FFFD in their place, as in any UTF-8 encoder', () => {
      const lock = makeLock({ stripes: STRIPES });
      for (const [lone, replaced] of [
        ['\ud83d', '\ufffd'],
        ['\udd11', '\ufffd'],
        ['a\udd11\ud83db', 'a\ufffd\ufffdb'],
        ['\ud83d\ud83d\udd11', '\ufffd\u{1f511}'],
        ['x'.repeat(1000) + '\ud83d', 'x'.repeat(1000) + '\ufffd'],
      ] as const) {
        expect(lock.stripeOf(lone)).toBe(lock.stripeOf(replaced));
        expect(lock.stripeOf(lone)).toBe(lock.stripeOf(Buffer.from(lone, 'utf8')));
        lock.acquireSync(lone).release();
      }
    });

    it('that end in a lone surrogate share a stripe, sliced or not, also in optimized code', () => {
      // Two locks, as each caches the stripes of strings.
      const [one, other] = [makeLock({ stripes: 65_536 }), makeLock({ stripes: 65_536 })];
      const flat = (text: string): string => Buffer.from(text, 'utf16le').toString('utf16le');
      for (let i = 0; i < 30_000; i++) {
        const key = `ké${i}abcdefghijklmnop\ud83d`;
        const sliced = flat(`${key}\udd11 and what follows`).slice(0, key.length);
        if (one.stripeOf(flat(key)) !== other.stripeOf(sliced)) expect.fail(`key ${i} has two stripes`);
      }
    });

    it('may be a string of 1 MiB, of one or two bytes a character', () => {
      const lock = makeLock({ stripes: STRIPES });
      for (const text of ['k'.repeat(2 ** 20), '鍵'.repeat(2 ** 19), 'ab'.repeat(2 ** 18) + '鍵']) {
        const guard = lock.acquireSync(text);
        expect(guard.stripes).toEqual([lock.stripeOf(Buffer.from(text))]);
        expect(lock.tryAcquire(`${text.slice(0, 1)}${text.slice(1)}`)).toBeUndefined();
        guard.release();
        expect(lock.stripeOf(`${text}.`)).not.toBe(lock.stripeOf(text));
      }
    });

    it('may be empty: empty text and empty bytes are the same key', () => {
      const lock = makeLock({ stripes: STRIPES });
      const guard = lock.acquireSync('');
      expect(lock.tryAcquire(new Uint8Array())).toBeUndefined();
      guard.release();
    });

    it('that are bytes are compared by content: views, Buffers, shared memory, odd offsets', () => {
      const lock = makeLock({ stripes: STRIPES });
      for (const length of [1, 3, 8, 17, 128, 129, 240, 241, 4096]) {
        const bytes = Uint8Array.from({ length }, (_, i) => (i * 31 + length) & 0xff);
        const stripe = lock.stripeOf(bytes);
        for (let offset = 0; offset < 9; offset++) {
          const inside = new Uint8Array(length + 20).fill(0xee);
          inside.set(bytes, offset);
          expect(lock.stripeOf(inside.subarray(offset, offset + length))).toBe(stripe);
        }
        const shared = new Uint8Array(new SharedArrayBuffer(length));
        shared.set(bytes);
        expect(lock.stripeOf(shared)).toBe(stripe);
        expect(lock.stripeOf(Buffer.from(bytes))).toBe(stripe);
        bytes[length - 1]! ^= 1;
        expect(lock.stripeOf(bytes)).not.toBe(stripe);
      }
    });

    it('may be any safe integer, and -0 is 0', () => {
      const lock = makeLock({ stripes: STRIPES });
      const numbers = [
        0,
        1,
        -1,
        2 ** 31 - 1,
        2 ** 31,
        -(2 ** 31),
        -(2 ** 31) - 1,
        2 ** 32,
        2 ** 32 + 1,
        2 ** 52,
      ];
      numbers.push(Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, -(2 ** 32), 123_456_789_012_345);
      for (const number of numbers) {
        const stripe = lock.stripeOf(number);
        expect(Number.isInteger(stripe)).toBe(true);
        expect(stripe).toBeGreaterThanOrEqual(0);
        expect(stripe).toBeLessThan(STRIPES);
      }
      expect(lock.stripeOf(-0)).toBe(lock.stripeOf(0));
      for (const number of numbers) {
        const guard = lock.acquireSync(number);
        expect(lock.tryAcquire(number)).toBeUndefined();
        guard.release();
      }
    });

    it('that are integers in a row, with gaps, negative or large spread evenly', () => {
      const count = 64;
      const perStripe = 1000;
      const lock = makeLock({ stripes: count });
      const lines: Record<string, (i: number) => number> = {
        row: (i) => i,
        negative: (i) => -i,
        even: (i) => 2 * i,
        thousands: (i) => 1000 * i,
        'multiples of the count': (i) => count * i,
        'multiples of 2^32': (i) => i * 2 ** 32,
        large: (i) => Number.MAX_SAFE_INTEGER - i,
      };
      for (const [name, line] of Object.entries(lines)) {
        const load = new Array<number>(count).fill(0);
        for (let i = 0; i < count * perStripe; i++) load[lock.stripeOf(line(i))]!++;
        // A fair throw differs from the mean by more than 20 % (6 standard deviations) once in millions of stripes.
        expect(Math.max(...load), name).toBeLessThan(perStripe * 1.2);
        expect(Math.min(...load), name).toBeGreaterThan(perStripe * 0.8);
      }
    });

    it('that are integers do not regularly share stripes with their negative or with a power of two times them', () => {
      const lock = makeLock({ stripes: STRIPES });
      const count = 4096;
      for (const factor of [-1, 2, 2 ** 8, 2 ** 16, 2 ** 24, 2 ** 31, 2 ** 32, -(2 ** 32), 2 ** 40]) {
        let shared = 0;
        for (let i = 1; i <= count; i++) if (lock.stripeOf(i) === lock.stripeOf(i * factor)) shared++;
        // One pair in a million shares a stripe.
        expect(shared, `times ${factor}`).toBeLessThan(5);
      }
    });

    it('that are strings spread evenly', () => {
      const lock = makeLock({ stripes: 100 });
      const load = new Array<number>(100).fill(0);
      for (let i = 0; i < 100_000; i++) load[lock.stripeOf(`user:${i}`)]!++;
      expect(Math.max(...load)).toBeLessThan(1200);
      expect(Math.min(...load)).toBeGreaterThan(800);
    });

    it('keep their stripe, however many other keys are used in between', () => {
      const lock = makeLock({ stripes: STRIPES });
      const keys = Array.from({ length: 30_000 }, (_, i) => `key ${i}`);
      const first = keys.map((key) => lock.stripeOf(key));
      expect(keys.map((key) => lock.stripeOf(key))).toEqual(first);
      expect(keys.toReversed().map((key) => lock.stripeOf(key))).toEqual(first.toReversed());
    });

    it('have the same stripe in every thread', async () => {
      const lock = makeLock({ stripes: STRIPES });
      const other = await Agent.start(lock);
      for (const key of [
        '',
        'key',
        '鍵',
        '\ud83d',
        'x'.repeat(10_000),
        5,
        -5,
        2 ** 50,
        new Uint8Array([0, 255]),
      ]) {
        expect(await other.stripeOf(key)).toBe(lock.stripeOf(key));
      }
    });

    it('map to 0 where there is one stripe', () => {
      const lock = makeLock({ stripes: 1 });
      for (const key of ['', 'key', 5, -5, Number.MAX_SAFE_INTEGER, new Uint8Array([1])]) {
        expect(lock.stripeOf(key)).toBe(0);
      }
    });
  });
};
