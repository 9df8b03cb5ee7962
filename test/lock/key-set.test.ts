import { describe, expect, it } from 'vitest';
import type { LockKey } from 'stripelock';
import { KeySets } from '../../unbundled/lock/key-set.js';
import { StripeIndex } from '../../unbundled/lock/stripe-index.js';

const STRIPES = 64;
/** More sets than a sample and what it lets pass: after so many new ones, sets bypass the memory for sure. */
const MANY_SETS = 5000;

function setUp(): { sets: KeySets; index: StripeIndex } {
  const hashOf = (key: string | Uint8Array): number =>
    [...Buffer.from(key)].reduce((sum, byte) => (sum * 31 + byte) % STRIPES, 7);
  const index = new StripeIndex(STRIPES, hashOf);
  return { sets: new KeySets(index), index };
}

/** Ever new pairs. */
function fill(sets: KeySets): void {
  for (let i = 0; i < MANY_SETS; i++) sets.setOf([`new:${i}`, `newer:${i}`]);
}

/** The same set again and again, until it is surely remembered. */
function repeat(sets: KeySets, keys: readonly LockKey[]): void {
  for (let i = 0; i < 40_000; i++) sets.setOf(keys.slice());
}

describe('the keys of an acquisition', () => {
  it('have their stripes, ascending and without duplicates, whether the set is new, remembered, or bypasses the memory', () => {
    const { sets, index } = setUp();
    let seed = 1;
    const random = (below: number): number => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((seed / 2 ** 32) * below);
    };
    const keyOf = (number: number): LockKey =>
      number % 5 === 0 ? number : number % 7 === 0 ? Buffer.from(`b${number}`) : `key:${number}`;
    for (let i = 0; i < 60_000; i++) {
      const few = Math.floor(i / 20_000) % 2 === 1;
      const count = random(20) === 0 ? random(140) : random(4);
      const keys = Array.from({ length: count }, (_, j) => keyOf(few ? j + random(2) : random(5000)));
      const { keys: kept, stripes } = sets.setOf(keys);
      expect(kept).toEqual(keys);
      const wanted = [...new Set(keys.map((key) => index.stripeOf(key, 'key')))].sort((a, b) => a - b);
      expect(stripes, `set ${i}`).toEqual(wanted);
    }
  });

  it('are remembered if they come again, also after many sets that did not', () => {
    const { sets } = setUp();
    const lists = Array.from({ length: 40 }, (_, i) => [`a:${i}`, `b:${i}`, `c:${i}`]);
    const known = (): number => {
      const first = lists.map((keys) => sets.setOf(keys));
      return lists.filter((keys, i) => sets.setOf(keys.slice()) === first[i]).length;
    };
    const before = known();
    expect(before).toBeGreaterThan(20);
    fill(sets);
    expect(known()).toBe(0);
    for (let i = 0; i < 40_000; i++) sets.setOf(lists[i % lists.length]!);
    expect(known()).toBe(before);
  });

  for (const phase of ['new', 'remembered', 'bypassing the memory'] as const) {
    it(`are read once each (${phase})`, () => {
      for (const count of [1, 2, 3, 30]) {
        const { sets } = setUp();
        const keys = Array.from({ length: count }, (_, i) => `k:${i}`);
        if (phase === 'remembered') repeat(sets, keys);
        if (phase === 'bypassing the memory') fill(sets);
        const reads = new Array<number>(count).fill(0);
        const list = new Proxy(keys, {
          get(target, name, receiver): unknown {
            if (typeof name === 'string' && /^\d+$/.test(name)) reads[Number(name)]!++;
            return Reflect.get(target, name, receiver);
          },
        });
        expect(sets.setOf(list).keys).toEqual(keys);
        expect(reads).toEqual(keys.map(() => 1));
      }
    });

    it(`are refused if one of them is no key, and the next set is right (${phase})`, () => {
      const { sets } = setUp();
      if (phase === 'remembered') repeat(sets, ['a', 'b']);
      if (phase === 'bypassing the memory') fill(sets);
      const wrong: unknown[][] = [
        ['a', undefined],
        [null, 'b'],
        ['a', 'b', {}],
        [1.5, 'b'],
        ['a', Number.NaN],
      ];
      for (const keys of wrong) {
        expect(() => sets.setOf(keys as LockKey[])).toThrow(/keys/);
        expect(sets.setOf(['a', 'b']).keys).toEqual(['a', 'b']);
      }
    });
  }

  it('are copied, so that a list may change afterwards', () => {
    const { sets } = setUp();
    fill(sets);
    const list = ['a', 'b'];
    const set = sets.setOf(list);
    list[0] = 'c';
    expect(set.keys).toEqual(['a', 'b']);
  });
});
