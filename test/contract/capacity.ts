import { describe, expect, it } from 'vitest';
import { KeyedLock, type KeyedLockOptions, type StripedLock } from 'stripelock';
import { Agent } from '../support/agent.js';
import type { EngineUnderTest } from '../support/engine.js';
import { rejectionOf, thrownBy } from '../support/waiting.js';

const FULL = expect.objectContaining({ name: 'LockError', code: 'ERR_LOCK_CAPACITY' }) as unknown;

export const capacitySuite = (engine: EngineUnderTest): void => {
  const makeLock = (options: KeyedLockOptions): KeyedLock =>
    new KeyedLock({ engine: engine.name, ...options });

  describe('the capacity of a lock on exact keys', () => {
    it('limits the keys in use: one more is refused, takes nothing, and is granted when a key is released', async () => {
      const lock = makeLock({ capacity: 5 });
      expect(lock.capacity).toBe(5);
      const guards = [1, 2, 3, 4, 5].map((key) => lock.acquireSync(key));
      expect(thrownBy(() => lock.acquireSync('more'))).toEqual(FULL);
      expect(thrownBy(() => lock.tryAcquire('more'))).toEqual(FULL);
      expect(await rejectionOf(lock.acquire('more'))).toEqual(FULL);
      expect(await rejectionOf(lock.acquire([1, 'more']))).toEqual(FULL);
      expect(lock.tryAcquire(1)).toBeUndefined();
      guards.pop()!.release();
      expect(thrownBy(() => lock.acquireSync(['one', 'more']))).toEqual(FULL);
      expect(lock.size).toBe(4);
      lock.acquireSync('more').release();
      for (const guard of guards) guard.release();
      // Idle keys do not prevent using as many keys at once as the capacity allows.
      lock.acquireSync(['a', 'b', 'c', 'd', 'e']).release();
      lock.acquireSync(['f', 'g', 'h', 'i', 'j']).release();
      expect(lock.size).toBe(0);
    });

    it('is left to keys in use, also while a list or a signal runs code in the middle of an acquisition', async () => {
      let lock = makeLock({ capacity: 8 });
      const useOthers = (how: string): void => {
        for (let i = 0; i < 20; i++) {
          lock.acquireSync(`${how} ${i}`).release();
          lock.acquireSync([`${how} ${i} a`, `${how} ${i} b`]).release();
        }
      };
      const keysInUse = (): unknown[] => lock.inspect().map(({ key }) => key);
      const lists = [
        ['a', 'b', 'c', 'd'],
        ['a', 'b', 'c', 'd'],
        ['d', 'c', 'b'],
      ];
      for (const [round, keys] of lists.entries()) {
        const list = Object.defineProperty(keys.slice(), 1, {
          get: () => {
            useOthers(`read ${round}`);
            return keys[1];
          },
        });
        const guard = lock.acquireSync(list);
        expect(keysInUse().toSorted()).toEqual(keys.toSorted());
        expect(keys.map((key) => lock.tryAcquire(key))).toEqual(keys.map(() => undefined));
        guard.release();
        expect(keysInUse()).toEqual([]);
      }
      lock = makeLock({ capacity: 8 });
      const held = lock.acquireSync('b');
      const { signal } = new AbortController();
      const listenAs = signal.addEventListener.bind(signal);
      signal.addEventListener = (...args: Parameters<AbortSignal['addEventListener']>) => {
        useOthers('signal');
        listenAs(...args);
      };
      const waiting = lock.acquire(['a', 'b', 'c'], { signal });
      held.release();
      const guard = await waiting;
      expect(keysInUse().toSorted()).toEqual(['a', 'b', 'c']);
      expect(lock.tryAcquire('c')).toBeUndefined();
      guard.release();
      expect(lock.size).toBe(0);
    });

    it('can be in use at once, whatever the thread used before', () => {
      for (const before of [1, 100, 192, 193, 384, 385, 386, 577, 1000]) {
        const lock = makeLock({ capacity: 512 });
        for (let i = 0; i < before; i++) lock.acquireSync(`before ${i}`).release();
        const keys = Array.from({ length: 512 }, (_, i) => i);
        lock.acquireSync(keys).release();
        for (let i = 0; i < before; i++) lock.acquireSync(`again ${i}`).release();
        for (const guard of keys.map((key) => lock.acquireSync(key))) guard.release();
        expect(lock.size).toBe(0);
      }
    });

    engine.acrossThreads(
      'is left to keys in use by half, however many idle threads remember others',
      async () => {
        const lock = makeLock({ capacity: 512 });
        const threads = await Promise.all(
          Array.from({ length: 8 }, () => Agent.start(lock as unknown as StripedLock)),
        );
        for (const [i, thread] of threads.entries()) {
          await thread.useEach(Array.from({ length: 200 }, (_, j) => `thread ${i} key ${j}`));
        }
        expect(lock.size).toBe(0);
        const guards = Array.from({ length: 240 }, (_, i) => lock.acquireSync(i));
        expect(lock.size).toBe(240);
        for (const guard of guards) guard.release();
      },
    );
  });
};
