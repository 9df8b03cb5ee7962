import { describe, expect, it } from 'vitest';
import type { Guard, LockKey, StripedLock } from 'stripelock';
import { Agent } from '../support/agent.js';
import type { Suite } from '../support/engine.js';
import { keysApart, keysTogether } from '../support/keys.js';
import { seedFor } from '../support/seed.js';
import { runThreads } from '../support/threads.js';
import { turns, until, watch } from '../support/waiting.js';
import { below, randomFrom } from '../workers/random.mjs';

export const multiKeySuite: Suite = (makeLock) => {
  describe('several keys in one acquisition', () => {
    it('takes the stripes of all keys, ascending, each once', async () => {
      const lock = makeLock();
      const keys = keysApart(lock, 5);
      const shuffled = [3, 0, 4, 1, 2, 3, 0].map((i) => keys[i]!);
      const stripes = keys.map((key) => lock.stripeOf(key));
      for (const acquire of inEachWay(lock, shuffled)) {
        const guard = await acquire();
        expect(guard.keys).toEqual(shuffled);
        expect(guard.stripes).toEqual(stripes);
        expect(lock.stats().held).toBe(5);
        for (const key of keys) expect(lock.tryAcquire(key)).toBeUndefined();
        guard.release();
        expect(lock.stats().held).toBe(0);
      }
    });

    it('takes a stripe once for a key that is named twice and for different keys on one stripe', async () => {
      const lock = makeLock({ stripes: 7 });
      const together = keysTogether(lock, 3);
      const lists: LockKey[][] = [['key', 'key'], together, [...together, ...together], [5, 5, 5]];
      for (const keys of lists) {
        for (const acquire of inEachWay(lock, keys)) {
          const guard = await acquire();
          expect(guard.stripes).toEqual([lock.stripeOf(keys[0]!)]);
          expect(guard.keys).toEqual(keys);
          expect(lock.tryAcquire(keys[0]!)).toBeUndefined();
          guard.release();
          expect(lock.stats().held).toBe(0);
        }
      }
    });

    it('takes the keys that a list has now, whatever it or a similar list had before', () => {
      const lock = makeLock({ stripes: 1009 });
      const random = randomFrom(seedFor('lists asked for again'));
      for (const length of [1, 2, 7, 16, 17, 64, 128, 129, 300]) {
        const keys: LockKey[] = Array.from({ length }, (_, i) => `key ${i}`);
        for (let round = 0; round < 50; round++) {
          const changed = below(random, length);
          if (round % 2 === 0) keys[changed] = [`other ${round}`, round, 'x'.repeat(300)][below(random, 3)]!;
          const expected = [...new Set(keys.map((key) => lock.stripeOf(key)))].sort((a, b) => a - b);
          // The list itself, and an equal one.
          for (const list of [keys, [...keys]]) {
            const guard = lock.acquireSync(list);
            expect(guard.stripes).toEqual(expected);
            expect(guard.keys).toEqual(keys);
            guard.release();
          }
        }
      }
      expect(lock.stats().held).toBe(0);
    });

    it('accepts keys of all types in one call, and ignores later changes of the list', () => {
      const lock = makeLock();
      const keys = ['text', 42, new Uint8Array([1, 2, 3]), -7];
      const guard = lock.acquireSync(keys);
      const stripes = [...guard.stripes];
      keys.length = 0;
      keys.push('something else');
      expect(guard.keys).toEqual(['text', 42, new Uint8Array([1, 2, 3]), -7]);
      expect(guard.stripes).toEqual(stripes);
      guard.release();
      expect(lock.stats().held).toBe(0);
    });

    it('gives a valid guard that holds nothing for an empty list of keys', async () => {
      const lock = makeLock();
      const everything = lock.acquireSync(keysApart(lock, 10));
      for (const acquire of inEachWay(lock, [])) {
        const guard = await acquire();
        expect(guard).toMatchObject({
          keys: [],
          stripes: [],
          held: true,
          abandoned: false,
          mode: 'exclusive',
        });
        expect(typeof guard.token).toBe('bigint');
        guard.release();
        expect(guard.held).toBe(false);
      }
      expect(await lock.withLock([], () => 1)).toBe(1);
      expect(lock.withLockSync([], () => 2)).toBe(2);
      everything.release();
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    });

    it('takes all stripes of the lock in one call', async () => {
      const lock = makeLock({ stripes: 5000 });
      const keys = Array.from({ length: 60_000 }, (_, i) => i);
      const all = new Set(keys.map((key) => lock.stripeOf(key))).size;
      expect(all).toBe(5000);
      for (const options of [{}, { mode: 'shared' } as const]) {
        const first = lock.acquireSync(keys, options);
        expect(lock.stats().held).toBe(5000);
        const second = watch(lock.acquire(keys));
        await turns();
        expect(second.state).toBe('pending');
        first.release();
        (await second.promise).release();
        expect(lock.stats().held).toBe(0);
      }
    });

    it('takes nothing in one attempt when any key of the list is held', async () => {
      const lock = makeLock();
      const keys = keysApart(lock, 3);
      const other = await Agent.start(lock);
      for (const [i, taken] of keys.entries()) {
        const guard = await other.acquireSync(taken);
        expect(lock.tryAcquire(keys)).toBeUndefined();
        expect(() => lock.acquireSync(keys, { timeout: 0 })).toThrow(/within 0 ms/);
        await expect(lock.acquire(keys, { timeout: 0 })).rejects.toThrow(/within 0 ms/);
        expect(lock.stats()).toMatchObject({ held: 1, waiting: 0 });
        for (const free of keys.toSpliced(i, 1)) lock.tryAcquire(free)!.release();
        await guard.release();
      }
    });

    it('waits for each held key, and holds them all in the end', async () => {
      const lock = makeLock();
      const keys = keysApart(lock, 4);
      const [a, b] = await Promise.all([Agent.start(lock), Agent.start(lock)]);
      for (const how of ['acquireSync', 'acquire'] as const) {
        const held = await Promise.all(keys.map((key) => a.acquireSync(key)));
        const waiting = watch(b[how](keys, { timeout: Infinity }));
        await until(() => lock.stats().waiting === 1, 'the other thread waits');
        for (const i of [2, 0, 3, 1]) {
          expect(waiting.state).toBe('pending');
          await held[i]!.release();
          await turns();
        }
        const guard = await waiting.promise;
        expect(guard.stripes).toEqual(keys.map((key) => lock.stripeOf(key)));
        for (const key of keys) expect(lock.tryAcquire(key)).toBeUndefined();
        await guard.release();
      }
    });

    it('completes two waiters that need each other’s keys in opposite order', async () => {
      const lock = makeLock();
      const [first, second] = keysApart(lock, 2) as [string, string];
      const block = lock.acquireSync([first, second]);
      const one = lock.acquire([first, second]).then((guard) => guard.release());
      const two = lock.acquire([second, first]).then((guard) => guard.release());
      block.release();
      await Promise.all([one, two]);
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0, deadlocks: 0 });
    });

    it('never deadlocks when threads name keys in opposite order, and loses no update', async () => {
      const lock = makeLock({ timeout: 30_000 });
      const cells = new SharedArrayBuffer(4 * 2);
      const rounds = 5000;
      await runThreads(
        'key-sets.mjs',
        [
          [0, 1],
          [1, 0],
          [0, 1],
          [1, 0],
        ].map((keys) => ({ handle: lock.handle, cells, rounds, keys })),
      );
      expect([...new Int32Array(cells)]).toEqual([4 * rounds, 4 * rounds]);
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0 });
    });

    it('never deadlocks on random sets of keys that also collide, and loses no update', async () => {
      const seed = seedFor('random sets of keys');
      const lock = makeLock({ stripes: 11, timeout: 30_000 });
      const cells = new SharedArrayBuffer(4 * 24);
      const done = await runThreads<number[]>(
        'key-sets.mjs',
        [1, 2, 3, 4].map((i) => ({ handle: lock.handle, cells, rounds: 3000, seed: seed + i })),
      );
      const expected = Array.from({ length: 24 }, (_, key) => done.reduce((sum, own) => sum + own[key]!, 0));
      expect([...new Int32Array(cells)]).toEqual(expected);
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0 });
    });
  });
};

/** The three ways to acquire. */
function inEachWay(lock: StripedLock, keys: readonly LockKey[]): (() => Guard | Promise<Guard>)[] {
  return [() => lock.acquireSync(keys), () => lock.acquire(keys), () => lock.tryAcquire(keys)!];
}
