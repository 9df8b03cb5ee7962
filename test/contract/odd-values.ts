import { describe, expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import type { Suite } from '../support/engine.js';
import {
  ACQUIRING,
  EVERY_TRAP,
  expectRefused,
  failureOf,
  isAsync,
  revoked,
  throwing,
  untyped,
  WRONG_TYPE,
  WRONG_VALUE,
} from '../support/refusals.js';
import { rejectionOf, thrownBy } from '../support/waiting.js';

/** Objects and functions that throw or lie when their type is looked at. */
function hostileObjects(): unknown[] {
  const named = (name: unknown): new () => object =>
    Object.defineProperty(
      class {
        readonly odd = true;
      },
      'name',
      { value: name },
    );
  const Odd = Object.defineProperty(named('Odd'), 'name', { get: throwing });
  const Symbolic = named(Symbol('no string'));
  const Long = named('x'.repeat(1e6));
  const nameless = (): void => undefined;
  Object.defineProperty(nameless, 'name', { get: throwing });
  return [
    Object.defineProperty({}, 'constructor', { get: throwing }),
    { constructor: new Proxy(Odd, EVERY_TRAP) },
    { toString: throwing, valueOf: throwing, [Symbol.toPrimitive]: throwing, toJSON: throwing },
    Object.create(null),
    Object.create(new Proxy({}, EVERY_TRAP)),
    Object.setPrototypeOf({}, revoked({})),
    new Odd(),
    new Symbolic(),
    new Long(),
    new Proxy({}, EVERY_TRAP),
    new Proxy(nameless, EVERY_TRAP),
    nameless,
    revoked({}),
    revoked([]),
    revoked(nameless),
    new Proxy(new Uint8Array(2), {}),
    Object.create(Uint8Array.prototype),
  ];
}

/** The same, and values that are slow to print or cannot become a string. */
const hostileValues = (): unknown[] => [
  ...hostileObjects(),
  Symbol('s'.repeat(1e6)),
  10n ** 100_000n,
  -(10n ** 100_000n),
];

export const oddValuesSuite: Suite = (makeLock) => {
  describe('odd input', () => {
    for (const method of ACQUIRING) {
      it(`to ${method}(): a value that throws when it is read is refused like any other`, async () => {
        const lock = makeLock();
        for (const value of hostileValues()) {
          expectRefused(await failureOf(lock, method, value), WRONG_TYPE);
          expectRefused(await failureOf(lock, method, ['good', value]), WRONG_TYPE);
          expectRefused(await failureOf(lock, method, 'good', { mode: value }), WRONG_TYPE);
          if (method !== 'tryAcquire') {
            expectRefused(await failureOf(lock, method, 'good', { timeout: value }), WRONG_TYPE);
          }
          if (isAsync(method)) {
            expectRefused(await failureOf(lock, method, 'good', { signal: value }), WRONG_TYPE);
          }
        }
        for (const options of [revoked({}), revoked([]), 's'.repeat(1e6), 10n ** 100_000n]) {
          expectRefused(await failureOf(lock, method, 'good', options), WRONG_TYPE);
        }
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, contended: 0 });
      });

      it(`to ${method}(): a list of more keys than there can be stripes is refused before it is read`, async () => {
        const lock = makeLock();
        for (const length of [1_048_577, 5e7, 2 ** 32 - 1]) {
          expectRefused(await failureOf(lock, method, new Array(length)), WRONG_VALUE);
        }
        const unread = new Proxy([], {
          get: (_target, key) => (key === 'length' ? 5e7 : throwing()),
        });
        expectRefused(await failureOf(lock, method, unread), WRONG_VALUE);
        for (const length of [-1, 0.5, NaN, Infinity, '2', 2n, undefined, {}, Symbol('length')]) {
          const lying = new Proxy(['a', 'b'], {
            get: (target, key, self) =>
              key === 'length' ? length : (Reflect.get(target, key, self) as unknown),
          });
          expectRefused(await failureOf(lock, method, lying), WRONG_VALUE);
        }
        // An element that cannot be a key is reported as soon as it is read.
        const reads: PropertyKey[] = [];
        const holes = new Proxy(new Array(1_048_576), {
          get: (target, key, self) => {
            if (key !== 'length') reads.push(key);
            return Reflect.get(target, key, self) as unknown;
          },
        });
        expectRefused(await failureOf(lock, method, holes), WRONG_TYPE);
        expect(reads).toEqual(['0']);
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
      });
    }

    it('may be a list of as many keys as there can be stripes', () => {
      const lock = makeLock({ stripes: 3 });
      const guard = lock.acquireSync(new Array<string>(1_048_576).fill('key'));
      expect(guard.stripes).toEqual([lock.stripeOf('key')]);
      expect(guard.keys).toHaveLength(1_048_576);
      guard.release();
    });

    it('to the constructor, from() and stripeOf() is refused like any other', () => {
      const lock = makeLock();
      const make = makeLock as (options: unknown) => StripedLock;
      for (const value of hostileValues()) {
        for (const name of ['stripes', 'timeout', 'name', 'engine', 'trace']) {
          expectRefused(
            thrownBy(() => make({ [name]: value })),
            WRONG_TYPE,
          );
        }
        expectRefused(
          thrownBy(() => StripedLock.from(value as typeof lock.handle)),
          WRONG_TYPE,
        );
        expectRefused(
          thrownBy(() => untyped(lock)['stripeOf']!(value)),
          WRONG_TYPE,
        );
        for (const field of Object.keys(lock.handle)) {
          expectRefused(
            thrownBy(() => StripedLock.from({ ...lock.handle, [field]: value })),
            WRONG_TYPE,
          );
        }
      }
      expectRefused(
        thrownBy(() => new StripedLock(revoked({}))),
        WRONG_TYPE,
      );
    });

    it('to withLock() and withLockSync() in place of a function is refused like any other', async () => {
      const lock = makeLock();
      for (const value of hostileValues().filter((value) => typeof value !== 'function')) {
        expectRefused(await rejectionOf(untyped(lock)['withLock']!('key', {}, value) as never), WRONG_TYPE);
        expectRefused(
          thrownBy(() => untyped(lock)['withLockSync']!('key', {}, value)),
          WRONG_TYPE,
        );
      }
      expect(lock.stats().held).toBe(0);
    });
  });
};
