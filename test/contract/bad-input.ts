import { describe, expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import type { Suite } from '../support/engine.js';
import {
  ACQUIRING,
  failureOf,
  isAsync,
  untyped,
  WRONG_TYPE,
  WRONG_VALUE,
  type Acquiring,
  type Refusal,
} from '../support/refusals.js';
import { rejectionOf, thrownBy } from '../support/waiting.js';

const NOT_KEYS: [unknown, Refusal][] = [
  [undefined, WRONG_TYPE],
  [null, WRONG_TYPE],
  [true, WRONG_TYPE],
  [5n, WRONG_TYPE],
  [Symbol('key'), WRONG_TYPE],
  [{}, WRONG_TYPE],
  [Object.create(null), WRONG_TYPE],
  [() => 'key', WRONG_TYPE],
  [new Date(), WRONG_TYPE],
  [Object('boxed'), WRONG_TYPE],
  [Object(5), WRONG_TYPE],
  [new ArrayBuffer(8), WRONG_TYPE],
  [new SharedArrayBuffer(8), WRONG_TYPE],
  [new DataView(new ArrayBuffer(8)), WRONG_TYPE],
  [new Int8Array(8), WRONG_TYPE],
  [new Uint8ClampedArray(8), WRONG_TYPE],
  [new Uint32Array(8), WRONG_TYPE],
  [new Set(['key']), WRONG_TYPE],
  [{ length: 1, 0: 'key' }, WRONG_TYPE],
  [NaN, WRONG_VALUE],
  [Infinity, WRONG_VALUE],
  [-Infinity, WRONG_VALUE],
  [0.5, WRONG_VALUE],
  [1e300, WRONG_VALUE],
  [2 ** 53, WRONG_VALUE],
  [-(2 ** 53), WRONG_VALUE],
];

const NOT_OPTIONS: unknown[] = [null, 5, 'shared', true, Symbol('options'), []];
const NOT_STRINGS: unknown[] = [null, 5, true, {}, Symbol('name'), 5n];
const NOT_MODES: unknown[] = [null, 5, '', 'Shared', 'read', true, {}, Symbol('mode'), ['shared']];
const NOT_SIGNALS: unknown[] = [
  null,
  5,
  'signal',
  {},
  { aborted: true },
  new AbortController(),
  new EventTarget(),
];
const NOT_FUNCTIONS: unknown[] = [undefined, null, 5, 'fn', {}, Promise.resolve()];

const NOT_TIMEOUTS: [unknown, Refusal][] = [
  [null, WRONG_TYPE],
  ['100', WRONG_TYPE],
  [true, WRONG_TYPE],
  [100n, WRONG_TYPE],
  [{}, WRONG_TYPE],
  [Symbol('timeout'), WRONG_TYPE],
  [new Date(), WRONG_TYPE],
  [-1, WRONG_VALUE],
  [-Infinity, WRONG_VALUE],
  [NaN, WRONG_VALUE],
];

/** A refused call leaves no trace in the counters. */
async function expectFailure(
  lock: StripedLock,
  method: Acquiring,
  [keys, options]: [unknown, unknown?],
  expected: Refusal,
): Promise<void> {
  expect(await failureOf(lock, method, keys, options)).toMatchObject(expected);
  expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, contended: 0, timeouts: 0 });
}

export const badInputSuite: Suite = (makeLock, engine) => {
  describe('bad input', () => {
    for (const method of ACQUIRING) {
      it(`to ${method}(): anything but a key is refused, alone and in a list, and nothing is taken`, async () => {
        const lock = makeLock({ timeout: 0 });
        for (const [key, expected] of NOT_KEYS) {
          await expectFailure(lock, method, [key], expected);
          await expectFailure(lock, method, [[key]], expected);
          await expectFailure(lock, method, [['good', 5, key]], expected);
          await expectFailure(lock, method, [[...Array.from({ length: 100 }, (_, i) => i), key]], expected);
          await expectFailure(lock, method, [['good', key], { mode: 'shared' }], expected);
        }
        await expectFailure(lock, method, [['good', ['nested']]], WRONG_TYPE);
        // A hole in a list cannot be a key either.
        await expectFailure(lock, method, [new Array(3)], WRONG_TYPE);
      });

      it(`to ${method}(): wrong options and wrong modes are refused`, async () => {
        const lock = makeLock();
        for (const options of NOT_OPTIONS) await expectFailure(lock, method, ['key', options], WRONG_TYPE);
        for (const mode of NOT_MODES) await expectFailure(lock, method, ['key', { mode }], WRONG_TYPE);
      });
    }

    for (const method of ['acquire', 'acquireSync', 'withLock', 'withLockSync'] as const) {
      it(`to ${method}(): a wrong timeout is refused`, async () => {
        const lock = makeLock();
        for (const [timeout, expected] of NOT_TIMEOUTS) {
          await expectFailure(lock, method, ['key', { timeout }], expected);
        }
      });
    }

    for (const method of ['acquire', 'withLock'] as const) {
      it(`to ${method}(): anything but an AbortSignal is refused as a signal`, async () => {
        const lock = makeLock();
        for (const signal of NOT_SIGNALS) await expectFailure(lock, method, ['key', { signal }], WRONG_TYPE);
      });
    }

    for (const method of ['withLock', 'withLockSync'] as const) {
      it(`to ${method}(): anything but a function is refused before a stripe is taken`, async () => {
        const lock = makeLock();
        for (const fn of NOT_FUNCTIONS) {
          for (const args of [
            ['key', fn],
            ['key', {}, fn],
          ]) {
            const call = (): unknown => untyped(lock)[method]!(...args);
            const error = isAsync(method) ? await rejectionOf(call() as Promise<unknown>) : thrownBy(call);
            expect(error).toMatchObject(WRONG_TYPE);
          }
        }
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
      });
    }

    it('to stripeOf() is refused', () => {
      const lock = makeLock();
      for (const [key, expected] of NOT_KEYS) {
        expect(thrownBy(() => untyped(lock)['stripeOf']!(key))).toMatchObject(expected);
      }
      expect(thrownBy(() => untyped(lock)['stripeOf']!(['key']))).toMatchObject(WRONG_TYPE);
    });

    it('to the constructor is refused', () => {
      const make = makeLock as (options: unknown) => StripedLock;
      const refused: [unknown, Refusal][] = [
        ...NOT_STRINGS.map((name): [unknown, Refusal] => [{ name }, WRONG_TYPE]),
        ...NOT_TIMEOUTS.map(([timeout, expected]): [unknown, Refusal] => [{ timeout }, expected]),
        ...[null, 'yes', 1, {}].map((trace): [unknown, Refusal] => [{ trace }, WRONG_TYPE]),
        ...[null, '8', true, 8n, {}].map((stripes): [unknown, Refusal] => [{ stripes }, WRONG_TYPE]),
        ...[0, -1, 1.5, NaN, Infinity, 1_048_577, 2 ** 32].map((stripes): [unknown, Refusal] => [
          { stripes },
          WRONG_VALUE,
        ]),
        ...[null, 'c++', '', 1, {}].map((wrong): [unknown, Refusal] => [{ engine: wrong }, WRONG_TYPE]),
      ];
      for (const [options, expected] of refused) {
        expect(thrownBy(() => make(options))).toMatchObject(expected);
      }
      for (const options of NOT_OPTIONS) {
        expect(thrownBy(() => new StripedLock(options as object))).toMatchObject(WRONG_TYPE);
      }
    });

    it('in options may be undefined, which means the default', async () => {
      const { name, stripes, timeout } = new StripedLock({ engine: engine.name });
      expect({ name, stripes, timeout }).toEqual({ name: '', stripes: 1024, timeout: 5000 });
      const nothing = { name: undefined, stripes: undefined, timeout: undefined, trace: undefined };
      const lock = (makeLock as (options: object) => StripedLock)(nothing);
      expect(lock).toMatchObject({ name: '', stripes: 1024, timeout: 5000, engine: engine.name });
      const options = { mode: undefined, timeout: undefined, signal: undefined };
      for (const method of ['acquire', 'acquireSync', 'tryAcquire'] as const) {
        const guard = (await untyped(lock)[method]!('key', options)) as { mode: string; release(): void };
        expect(guard.mode).toBe('exclusive');
        guard.release();
      }
    });

    it('is named in the message, with what was received', () => {
      const lock = makeLock();
      const messageOf = (fn: () => unknown): string => (thrownBy(fn) as Error).message;
      expect(messageOf(() => untyped(lock)['acquireSync']!({}))).toMatch(/key.*Object/);
      expect(messageOf(() => lock.acquireSync(1.5))).toMatch(/key.*safe integer.*1\.5/);
      expect(messageOf(() => lock.acquireSync('a', { timeout: -3 }))).toMatch(/options\.timeout.*-3/);
      expect(messageOf(() => untyped(lock)['acquireSync']!('a', { mode: 'both' }))).toMatch(
        /options\.mode.*both/,
      );
      expect(messageOf(() => makeLock({ stripes: 0 }))).toMatch(/options\.stripes.*1048576.*0/);
    });

    const { signal } = new AbortController();
    const meaningless: Readonly<Record<Acquiring, readonly object[]>> = {
      acquire: [{ ifAvailable: true }, { ifAvailable: false, timeout: 5 }],
      withLock: [{ ifAvailable: true }, { ifAvailable: false, timeout: 5 }],
      acquireSync: [{ ifAvailable: true }, { signal }, { mode: 'exclusive', signal }],
      withLockSync: [{ ifAvailable: true }, { signal }, { mode: 'exclusive', signal }],
      tryAcquire: [{ timeout: 5 }, { signal }, { ifAvailable: true }],
    };
    for (const method of ACQUIRING) {
      it(`that means nothing to ${method} is refused by it, whether the key is free or not`, async () => {
        const lock = makeLock();
        for (const options of meaningless[method]) {
          await expectFailure(lock, method, ['key', options], WRONG_TYPE);
          const guard = lock.acquireSync('key');
          expect(await failureOf(lock, method, 'key', options)).toMatchObject(WRONG_TYPE);
          guard.release();
        }
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
      });
    }

    it('with getters and a toString that throw fails without taking anything', async () => {
      const lock = makeLock();
      const hostile = new Proxy(Object.create(null) as object, {
        get: () => {
          throw new Error('do not touch');
        },
        getPrototypeOf: () => null,
      });
      for (const method of ACQUIRING) {
        expect(await failureOf(lock, method, hostile)).toBeInstanceOf(Error);
        expect(await failureOf(lock, method, ['good', hostile])).toBeInstanceOf(Error);
        expect(await failureOf(lock, method, 'good', hostile)).toBeInstanceOf(Error);
      }
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    });
  });

  describe('methods called on something else', () => {
    it('throw instead of crashing', () => {
      const lock = makeLock();
      for (const method of [
        'stripeOf',
        'acquireSync',
        'tryAcquire',
        'withLockSync',
        'stats',
        'inspect',
      ] as const) {
        for (const receiver of [undefined, {}, Object.create(lock)]) {
          const call = (): unknown => Reflect.apply(untyped(lock)[method]!, receiver, ['key', () => 1]);
          expect(thrownBy(call)).toBeInstanceOf(TypeError);
        }
      }
    });
  });
};
