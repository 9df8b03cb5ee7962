import { describe, expect, it } from 'vitest';
import type { LockKey, StripedLock } from 'stripelock';
import type { Suite } from '../support/engine.js';
import { ACQUIRING, expectRefused, failureOf, throwing, WRONG_TYPE } from '../support/refusals.js';
import { thrownBy } from '../support/waiting.js';

export const oddListsSuite: Suite = (makeLock) => {
  describe('a list of keys that lies', () => {
    /** A list that gives its keys at the first reading, and others later. */
    const readings = (): { list: string[]; reads: number[] } => {
      const first = ['a', 'b', 'c'];
      const reads = first.map(() => 0);
      const list = new Array<string>(first.length);
      for (const [i, key] of first.entries()) {
        Object.defineProperty(list, i, { get: () => (reads[i]!++ === 0 ? key : `other ${key}`) });
      }
      return { list, reads };
    };
    const stripesOf = (lock: StripedLock, keys: LockKey[]): number[] =>
      [...new Set(keys.map((key) => lock.stripeOf(key)))].sort((x, y) => x - y);
    const expectTaken = (lock: StripedLock, list: readonly LockKey[], keys: LockKey[]): void => {
      const guard = lock.acquireSync(list);
      expect(guard.keys).toEqual(keys);
      expect(guard.stripes).toEqual(stripesOf(lock, keys));
      guard.release();
    };

    it('is read once, element by element, whatever was acquired before', () => {
      const before: LockKey[][] = [
        [],
        ['x', 'y', 'z'],
        ['a', 'y', 'z'],
        ['a', 'b', 'z'],
        ['a', 'b', 'c'],
        ['a', 'b', 'other c'],
        ['other a', 'other b', 'other c'],
        ['a', 'b'],
      ];
      for (const one of before) {
        for (const two of before) {
          const lock = makeLock({ stripes: 65_537 });
          expectTaken(lock, one, one);
          expectTaken(lock, two, two);
          const { list, reads } = readings();
          expectTaken(lock, list, ['a', 'b', 'c']);
          expect(reads).toEqual([1, 1, 1]);
          expectTaken(lock, ['a', 'b', 'c'], ['a', 'b', 'c']);
          expectTaken(lock, ['other a', 'other b', 'other c'], ['other a', 'other b', 'other c']);
        }
      }
    });

    it('is used without its own methods and species, and does not spoil the stripes of an honest list', () => {
      const lock = makeLock({ stripes: 65_537 });
      class Lying extends Array<string> {
        static override get [Symbol.species](): ArrayConstructor {
          return throwing();
        }
      }
      for (const method of ['slice', 'map', 'every', 'forEach', 'concat', Symbol.iterator]) {
        Object.defineProperty(Lying.prototype, method, { value: () => ['c', 'd'] });
      }
      for (const count of [2, 30, 200]) {
        const keys = Array.from({ length: count }, (_, i) => `key ${i}`);
        const list = new Lying();
        for (const key of keys) list.push(key);
        expectTaken(lock, list, keys);
        expectTaken(lock, keys, keys);
      }
    });

    it('may be a Proxy, or grow and shrink while it is read', () => {
      const lock = makeLock({ stripes: 65_537 });
      expectTaken(lock, new Proxy(['a', 'b'], {}), ['a', 'b']);
      const growing = ['a', 'b'];
      Object.defineProperty(growing, 0, { get: () => (growing.push('more'), 'a') });
      expectTaken(lock, growing, ['a', 'b']);
      const shrinking = ['a', 'b', 'c'];
      Object.defineProperty(shrinking, 0, { get: () => ((shrinking.length = 1), 'a') });
      expectRefused(
        thrownBy(() => lock.acquireSync(shrinking)),
        WRONG_TYPE,
      );
      expect(lock.stats().held).toBe(0);
    });

    it('may acquire others while it is read', () => {
      const lock = makeLock({ stripes: 65_537 });
      const list = ['a', 'b'];
      Object.defineProperty(list, 1, {
        get: () => {
          lock.acquireSync(['a', 'other']).release();
          lock.acquireSync(['x', 'y']).release();
          return 'b';
        },
      });
      for (let i = 0; i < 3; i++) {
        expectTaken(lock, list, ['a', 'b']);
        expectTaken(lock, ['a', 'other'], ['a', 'other']);
        expectTaken(lock, ['a', 'b'], ['a', 'b']);
      }
    });

    it('that throws passes its error on, and nothing is taken', async () => {
      const lock = makeLock();
      const list = ['a', 'b'];
      Object.defineProperty(list, 1, { get: throwing });
      for (const method of ACQUIRING) {
        expect(await failureOf(lock, method, list)).toMatchObject({ message: 'a trap of the value ran' });
      }
      expect(lock.stats().held).toBe(0);
    });
  });
};
