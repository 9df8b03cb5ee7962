import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KeyedLock, StripedLock, type Guard, type LockKey, type KeyedLockOptions } from 'stripelock';
import { Agent } from '../support/agent.js';
import { withoutMemory } from '../support/bytes.js';
import type { EngineUnderTest } from '../support/engine.js';
import { seedFor } from '../support/seed.js';
import { sameTextDifferently } from '../support/strings.js';
import { rejectionOf, thrownBy, until } from '../support/waiting.js';

/** A lock of which a thread remembers few keys. */
const FEW_KEYS = 512;

/** Any string, lone surrogates included, and what looks like it. */
const anyKey = fc.oneof(
  fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((c) => String.fromCharCode(c)), maxLength: 6 }),
  fc.integer({ min: -3, max: 300 }).map(String),
  fc.integer({ min: -3, max: 300 }),
  fc.maxSafeInteger(),
  fc.uint8Array({ maxLength: 4 }),
);

/** Equal for equal keys, and for no others. */
function identity(key: LockKey): string {
  if (typeof key === 'object') return `bytes ${Array.from(key).join()}`;
  return `${typeof key} ${typeof key === 'string' ? Array.from({ length: key.length }, (_, i) => key.charCodeAt(i)).join() : key + 0}`;
}

export const exactKeysSuite = (engine: EngineUnderTest): void => {
  const makeLock = (options?: KeyedLockOptions): KeyedLock =>
    new KeyedLock({ engine: engine.name, ...options });

  describe('a lock on exact keys', () => {
    it('never has unequal keys wait for each other, nor equal ones pass', () => {
      const property = (keys: LockKey[]): void => {
        const lock = makeLock({ capacity: 256 });
        const held = new Map<string, Guard>();
        for (const key of keys) {
          expect(lock.isLocked(key), identity(key)).toBe(held.has(identity(key)));
          const guard = lock.tryAcquire(key);
          expect(guard === undefined, identity(key)).toBe(held.has(identity(key)));
          if (guard !== undefined) held.set(identity(key), guard);
        }
        expect(lock.size).toBe(held.size);
        const shown = lock.inspect().map(({ key }) => identity(key));
        expect(shown.sort()).toEqual([...held.keys()].sort());
        for (const guard of held.values()) guard.release();
        expect(lock.size).toBe(0);
        expect(lock.inspect()).toEqual([]);
      };
      fc.assert(fc.property(fc.array(anyKey, { maxLength: 60 }), property), {
        seed: seedFor('exact keys'),
        numRuns: 300,
      });
    });

    it('distinguishes numbers, their digits and the bytes of these, and different lone surrogates', () => {
      const lock = makeLock();
      const keys = [
        1,
        '1',
        Uint8Array.of(49),
        Uint8Array.of(49, 0),
        '\ud83d',
        '\udd11',
        '\ufffd',
        '',
        new Uint8Array(),
      ];
      const guards = keys.map((key) => lock.tryAcquire(key));
      expect(guards.every((guard) => guard !== undefined)).toBe(true);
      expect(lock.size).toBe(keys.length);
      expect(lock.inspect().map(({ key }) => key)).toEqual(expect.arrayContaining(keys));
      for (const key of keys) expect(lock.tryAcquire(key)).toBeUndefined();
      for (const guard of guards) guard!.release();
      expect(lock.tryAcquire(0)!.keys).toEqual([0]);
      expect(lock.tryAcquire(-0)).toBeUndefined();
    });

    it('refuses bytes whose memory was detached or shrank, and does not take them for the empty key', async () => {
      const lock = makeLock();
      const refusal = expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }) as Error;
      for (const gone of withoutMemory()) {
        for (const keys of [gone, ['a', gone]]) {
          expect(thrownBy(() => lock.acquireSync(keys))).toEqual(refusal);
          expect(thrownBy(() => lock.tryAcquire(keys))).toEqual(refusal);
          expect(await rejectionOf(lock.acquire(keys))).toEqual(refusal);
        }
        expect(thrownBy(() => lock.stateOf(gone))).toEqual(refusal);
      }
      const guard = lock.acquireSync(new Uint8Array());
      expect(lock.inspect()).toMatchObject([{ key: new Uint8Array() }]);
      guard.release();
      expect(lock.size).toBe(0);
    });

    it('reports the state of keys for which it has no room', () => {
      const lock = makeLock({ capacity: 4 });
      const guards = ['a', 1, Uint8Array.of(2), ''].map((key) => lock.acquireSync(key));
      for (let i = 2; i < 200; i++) {
        for (const key of [i, String(i), Uint8Array.of(i, i)])
          expect(lock.stateOf(key)).toMatchObject({ free: true });
      }
      expect(lock.stateOf(Uint8Array.of(2))).toMatchObject({ free: false, holders: 1 });
      for (const guard of guards) guard.release();
      expect(lock.size).toBe(0);
    });

    it('knows an equal string, however it is represented', () => {
      const lock = makeLock();
      for (const text of ['', 'k', 'müller', '鍵'.repeat(5), 'x'.repeat(200), 'ü'.repeat(200)]) {
        for (const [how, variant] of Object.entries(sameTextDifferently(text))) {
          const guard = lock.acquireSync(variant);
          expect(lock.tryAcquire(text), how).toBeUndefined();
          guard.release();
        }
      }
    });

    it('lets a thread acquire ten thousand keys one by one while it holds those before', () => {
      const lock = makeLock();
      const guards = Array.from({ length: 10_000 }, (_, i) =>
        lock.acquireSync(`nested ${i}`, { timeout: 0 }),
      );
      expect(lock.stats()).toMatchObject({ held: 10_000, deadlocks: 0, contended: 0 });
      expect(new Set(guards.flatMap(({ stripes }) => stripes)).size).toBe(10_000);
      for (const guard of guards) guard.release();
      expect(lock.size).toBe(0);
    });

    it('shows how many keys may be in use in stats(), and how many are held', () => {
      const lock = makeLock({ capacity: 7 });
      const guard = lock.acquireSync(['a', 'b']);
      expect(lock.stats()).toMatchObject({ capacity: 7, stripes: 7, held: 2 });
      guard.release();
      expect(lock.stats()).toMatchObject({ capacity: 7, held: 0 });
    });

    engine.acrossThreads('is the same in other threads, as a key, in inspect() and in errors', async () => {
      const lock = makeLock({ name: 'exact' });
      const other = await Agent.start(lock as unknown as StripedLock);
      const theirs = await other.acquireSync(['a', 1]);
      expect(lock.tryAcquire('a')).toBeUndefined();
      expect(lock.tryAcquire('1')).toBeDefined();
      const shown = lock.inspect().filter(({ key }) => key === 'a');
      expect(shown).toEqual([
        { key: 'a', mode: 'exclusive', holders: [{ threadId: other.threadId }], waiters: [] },
      ]);
      const waiting = lock.acquire('a');
      await until(() => lock.stats().waiting === 1, 'it waits');
      expect(thrownBy(() => lock.acquireSync('a', { timeout: 5 }))).toMatchObject({
        code: 'ERR_LOCK_TIMEOUT',
        keys: ['a'],
        holders: [other.threadId],
      });
      await theirs.release();
      (await waiting).release();
    });

    it('shows a key that waits in inspect() with its waiter', async () => {
      const lock = makeLock();
      const guard = lock.acquireSync('a');
      const waiting = lock.acquire('a');
      expect(lock.inspect()).toMatchObject([
        { key: 'a', mode: 'exclusive', waiters: [{ kind: 'async', mode: 'exclusive' }] },
      ]);
      guard.release();
      (await waiting).release();
    });

    it('keeps the keys of a list together while the program’s code uses others in between', async () => {
      const lock = makeLock({ capacity: FEW_KEYS });
      const uses = (): void => {
        // More than the thread remembers. Keys that are looked up in between are not unpinned before the call ends.
        for (let i = 0; i < 200; i++) lock.acquireSync(`in between ${i}`).release();
      };
      const list = new Proxy(['a', 'b', 'c'], {
        get: (target, name, receiver): unknown => {
          if (name === '1' || name === '2') uses();
          return Reflect.get(target, name, receiver);
        },
      });
      const signal = new AbortController().signal;
      Object.defineProperty(signal, 'addEventListener', {
        value: (...args: Parameters<AbortSignal['addEventListener']>) => {
          uses();
          AbortSignal.prototype.addEventListener.apply(signal, args);
        },
      });
      const guard = lock.acquireSync(list);
      for (const key of ['a', 'b', 'c']) expect(lock.tryAcquire(key)).toBeUndefined();
      const waiting = lock.acquire(list, { signal });
      uses();
      guard.release();
      const granted = await waiting;
      for (const key of ['a', 'b', 'c']) expect(lock.tryAcquire(key)).toBeUndefined();
      granted.release();
      expect(lock.size).toBe(0);
    });

    it('takes the keys of remembered lists, whatever was used in between', () => {
      const lock = makeLock({ capacity: FEW_KEYS });
      const lists = Array.from({ length: 20 }, (_, i) =>
        Array.from({ length: 8 }, (_, j) => `list ${i} key ${j}`),
      );
      for (let round = 0; round < 30; round++) {
        const list = lists[round % 20]!;
        const guard = lock.acquireSync(list);
        const other = lists[(round + 1) % 20]!;
        const second = lock.tryAcquire(other)!;
        expect(second.stripes.some((stripe) => guard.stripes.includes(stripe))).toBe(false);
        for (const key of list) expect(lock.tryAcquire(key)).toBeUndefined();
        guard.release();
        expect(
          lock
            .inspect()
            .map(({ key }) => key)
            .sort(),
        ).toEqual([...other].sort());
        second.release();
        for (let i = 0; i < 40 * (round % 5); i++) lock.acquireSync(`between ${round} ${i}`).release();
        lists[(round + 1) % 20] = other.map((key) => `${key}+`);
      }
    });

    it('refuses a thread that would block for a key that it holds itself, and no other', async () => {
      const lock = makeLock();
      const guard = lock.acquireSync('key');
      expect(thrownBy(() => lock.acquireSync('key'))).toMatchObject({
        code: 'ERR_LOCK_DEADLOCK',
        keys: ['key'],
        message: expect.stringMatching(/^lock: waiting for key "key" would never end/) as unknown,
      });
      expect(thrownBy(() => lock.acquireSync(['other', 'key']))).toMatchObject({ code: 'ERR_LOCK_DEADLOCK' });
      const failures = [
        thrownBy(() => lock.acquireSync('key')),
        thrownBy(() => lock.acquireSync('key', { timeout: 0 })),
        await rejectionOf(lock.acquire(['other', 'key'], { timeout: 1 })),
      ];
      for (const { message } of failures as Error[]) {
        expect(message).toMatch(/thread.*not reentrant/);
        expect(message).not.toMatch(/stripe/i);
      }
      lock.acquireSync('other', { timeout: 0 }).release();
      guard.release();
      lock.acquireSync(['key', 'other']).release();
    });

    it('refuses the handle of another class', () => {
      const refused = expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }) as unknown;
      const striped = new StripedLock({ engine: engine.name });
      expect(thrownBy(() => KeyedLock.from(striped.handle as never))).toEqual(refused);
      expect(thrownBy(() => StripedLock.from(makeLock().handle as never))).toEqual(refused);
      const forged = { ...striped.handle, kind: 'stripelock/keyed-lock' } as const;
      expect(thrownBy(() => KeyedLock.from(forged))).toEqual(refused);
      const again = KeyedLock.from(structuredClone(makeLock({ capacity: 12, name: 'n', timeout: 7 }).handle));
      expect(again).toMatchObject({ capacity: 12, name: 'n', timeout: 7, engine: engine.name });
    });

    it('refuses bad options and keys', () => {
      for (const capacity of [0, 1.5, -1, 1_048_577, NaN]) {
        expect(thrownBy(() => makeLock({ capacity }))).toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
      }
      expect(thrownBy(() => makeLock({ capacity: '8' as unknown as number }))).toMatchObject({
        code: 'ERR_INVALID_ARG_TYPE',
      });
      const lock = makeLock();
      for (const key of [undefined, null, {}, true, 1n, Symbol('key')]) {
        expect(thrownBy(() => lock.acquireSync(key as never))).toMatchObject({
          code: 'ERR_INVALID_ARG_TYPE',
        });
      }
      for (const key of [1.5, NaN, 2 ** 53]) {
        expect(thrownBy(() => lock.acquireSync(key))).toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
      }
      lock.acquireSync('k'.repeat(10_000)).release();
    });
  });
};
