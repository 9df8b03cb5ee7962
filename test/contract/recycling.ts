// Stripes of exact keys that pass from key to key.
import { describe, expect, it } from 'vitest';
import { KeyedLock, type Guard, type KeyedLockOptions } from 'stripelock';
import type { EngineUnderTest } from '../support/engine.js';
import { seedFor } from '../support/seed.js';
import { runThreads } from '../support/threads.js';
import { thrownBy } from '../support/waiting.js';
import { below, randomFrom } from '../workers/random.mjs';

/** A lock of which a thread remembers few keys. */
const FEW_KEYS = 512;

export const recyclingSuite = (engine: EngineUnderTest): void => {
  const makeLock = (options?: KeyedLockOptions): KeyedLock =>
    new KeyedLock({ engine: engine.name, ...options });

  describe('the stripes of exact keys', () => {
    it('stay with a key that is held or waited for, however many others come and go', async () => {
      const lock = makeLock({ capacity: FEW_KEYS });
      const held = ['held', 7, Uint8Array.of(1, 2), 'h'.repeat(230)];
      const guards = held.map((key) => lock.acquireSync(key));
      const stripes = guards.map((guard) => guard.stripes);
      const waiting = held.map((key) => lock.acquire(key));
      for (let round = 0; round < 3; round++) {
        for (let i = 0; i < 3000; i++) lock.acquireSync(`other ${i}`).release();
        for (let i = 0; i < 3000; i++) lock.acquireSync(`some ${i % 100}`).release();
        // Looked up again, and so remembered again: still the same.
        for (const key of held) expect(lock.tryAcquire(key)).toBeUndefined();
      }
      for (const guard of guards) guard.release();
      const granted = await Promise.all(waiting);
      expect(granted.map((guard) => guard.stripes)).toEqual(stripes);
      for (let i = 0; i < 3000; i++) lock.acquireSync(`third ${i}`).release();
      for (const key of held) expect(lock.tryAcquire(key)).toBeUndefined();
      for (const guard of granted) guard.release();
      expect(lock.size).toBe(0);
    });

    it('are the same in all lock objects of a thread, whichever of them makes room for other keys', () => {
      for (const capacity of [2, 8, 64, 1000]) {
        const one = makeLock({ capacity });
        const other = KeyedLock.from(one.handle);
        // Often enough to be remembered.
        for (let i = 0; i < 2000; i++) other.acquireSync('key').release();
        const guards = Array.from({ length: capacity }, (_, i) => one.acquireSync(i));
        expect(thrownBy(() => other.acquireSync('key'))).toMatchObject({ code: 'ERR_LOCK_CAPACITY' });
        guards.pop()!.release();
        const holder = one.acquireSync('key');
        for (const guard of guards) guard.release();
        expect(other.tryAcquire('key')).toBeUndefined();
        holder.release();
        expect(one.size).toBe(0);
      }
    });

    it('are looked up again for a list that another lock object of the thread has used', () => {
      const one = makeLock({ capacity: FEW_KEYS });
      const other = KeyedLock.from(one.handle);
      for (const lock of [one, other, other]) lock.acquireSync(['a', 'b']).release();
      for (let i = 0; i < 5000; i++) one.acquireSync(`some ${i}`).release();
      const holder = one.acquireSync('a');
      expect(other.tryAcquire(['a', 'b'])).toBeUndefined();
      holder.release();
      const both = other.acquireSync(['a', 'b']);
      expect(['a', 'b'].map((key) => one.tryAcquire(key))).toEqual([undefined, undefined]);
      both.release();
      expect(one.size).toBe(0);
    });

    it('belong to the keys in a list, although reading the list fills the table', () => {
      for (const pick of [(lock: KeyedLock) => lock, (lock: KeyedLock) => KeyedLock.from(lock.handle)]) {
        const lock = makeLock({ capacity: 8 });
        const within = pick(lock);
        for (const keys of [
          ['a', 'b'],
          ['c', 'd'],
        ]) {
          lock.acquireSync(keys).release();
        }
        const held: Guard[] = [];
        const list = Object.defineProperty(['a', 'b'], 1, {
          get: () => {
            for (let i = 0; i < 6; i++) held.push(within.acquireSync(`held ${i}`));
            return 'b';
          },
        });
        const guard = lock.tryAcquire(list);
        const shown = lock.inspect().map(({ key }) => key);
        expect(shown.toSorted()).toEqual(['a', 'b', ...held.flatMap(({ keys }) => keys)].toSorted());
        for (const each of [guard!, ...held]) each.release();
        expect(lock.size).toBe(0);
      }
    });

    it('pass from a key that was used once to the next, and never from a key in use', async () => {
      const first = makeLock({ capacity: FEW_KEYS });
      const objects = [first, KeyedLock.from(first.handle)];
      const random = randomFrom(seedFor('long keys'));
      // So long that each is looked up again.
      const length = 300;
      const keys = Array.from({ length: 150 }, (_, i) => `${i}`.padEnd(length, '.'));
      const held = new Map<string, Guard | Promise<Guard>>();
      for (let step = 0; step < 30_000; step++) {
        const key = keys[below(random, keys.length)]!;
        const lock = objects[below(random, 2)]!;
        const way = below(random, 8);
        const isHeld = held.has(key);
        if (way === 0 && isHeld) {
          // The one who waits is the next holder.
          const holder = await held.get(key)!;
          held.set(key, lock.acquire(key));
          for (let i = below(random, 20); i > 0; i--)
            lock.acquireSync(`${step} ${i}`.padEnd(length, '.')).release();
          holder.release();
        } else if (way < 3 && isHeld) {
          (await held.get(key)!).release();
          held.delete(key);
        } else if (way === 3) {
          const other = keys[below(random, keys.length)]!;
          const guard = lock.tryAcquire([key, other]);
          expect(guard === undefined).toBe(isHeld || held.has(other));
          guard?.release();
        } else if (way === 4 && !isHeld && held.size < 30) {
          held.set(key, lock.acquireSync(key, { timeout: 1000 }));
        } else {
          const guard = lock.tryAcquire(key);
          expect(guard === undefined, `step ${step}`).toBe(isHeld);
          if (held.size < 30 && guard !== undefined) held.set(key, guard);
          else guard?.release();
        }
      }
      const shown = first.inspect().map(({ key }) => key);
      expect(shown.sort()).toEqual([...held.keys()].sort());
      for (const guard of held.values()) (await guard).release();
      expect(first.size).toBe(0);
    });

    engine.acrossThreads('pass from key to key in several threads, and no update is lost', async () => {
      const lock = makeLock({ capacity: 128, timeout: 30_000 });
      const keys = 400;
      const cells = {
        counters: new SharedArrayBuffer(4 * keys),
        expected: new SharedArrayBuffer(4 * keys),
      };
      const data = {
        handle: lock.handle,
        cells,
        rounds: 4000,
        seed: seedFor('exact keys in threads'),
        holds: 20,
      };
      const full = await runThreads<number>(
        'exact-keys.mjs',
        Array.from({ length: 4 }, (_, i) => ({ ...data, seed: data.seed + i })),
      );
      expect(full).toHaveLength(4);
      expect(new Int32Array(cells.counters)).toEqual(new Int32Array(cells.expected));
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0 });
      expect(lock.size).toBe(0);
    });
  });
};
