import { describe, expect, it } from 'vitest';
import { Guard } from 'stripelock';
import { Agent } from '../support/agent.js';
import type { Suite } from '../support/engine.js';
import { turns, until, watch } from '../support/waiting.js';

export const exclusiveSuite: Suite = (makeLock) => {
  describe('exclusive acquisition', () => {
    it('takes a free key with acquireSync, acquire and tryAcquire', async () => {
      const lock = makeLock();
      for (const guard of [lock.acquireSync('a'), await lock.acquire('b'), lock.tryAcquire('c')]) {
        expect(guard).toBeInstanceOf(Guard);
        expect(guard).toMatchObject({ held: true, mode: 'exclusive', abandoned: false });
        guard!.release();
        expect(guard!.held).toBe(false);
      }
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, contended: 0 });
    });

    it('refuses one attempt on a held key, in this thread and in another', async () => {
      const lock = makeLock();
      const other = await Agent.start(lock);
      const guard = lock.acquireSync('key');
      expect(lock.tryAcquire('key')).toBeUndefined();
      expect(await other.tryAcquire('key')).toBeUndefined();
      guard.release();
      const theirs = await other.tryAcquire('key');
      expect(theirs).toBeDefined();
      expect(lock.tryAcquire('key')).toBeUndefined();
      await theirs!.release();
      expect(lock.tryAcquire('key')).toBeDefined();
    });

    it('lets an async acquisition wait until the key is released by this thread', async () => {
      const lock = makeLock();
      const first = lock.acquireSync('key');
      const second = watch(lock.acquire('key'));
      await turns();
      expect(second.state).toBe('pending');
      first.release();
      expect((await second.promise).held).toBe(true);
      expect(lock.tryAcquire('key')).toBeUndefined();
    });

    it('wakes a waiting thread, blocked or not, when another thread releases', async () => {
      const lock = makeLock();
      const [a, b] = await Promise.all([Agent.start(lock), Agent.start(lock)]);
      let held = await a.acquireSync('key');
      for (const how of ['acquireSync', 'acquire'] as const) {
        const waiting = watch(b[how]('key', { timeout: Infinity }));
        await until(() => lock.stats().waiting === 1, 'the other thread waits');
        expect(waiting.state).toBe('pending');
        // The releasing thread does nothing else meanwhile, so only its release can wake the waiter.
        await a.releaseAfter(held, 5);
        const theirs = await waiting.promise;
        expect(await a.tryAcquire('key')).toBeUndefined();
        await theirs.release();
        held = await a.acquireSync('key');
      }
    });

    it('serves the async waiters of a thread in order of arrival', async () => {
      const lock = makeLock();
      const first = lock.acquireSync('key');
      const served: number[] = [];
      const waiters = Array.from({ length: 100 }, (_, i) =>
        lock.acquire('key').then((guard) => {
          served.push(i);
          guard.release();
        }),
      );
      first.release();
      await Promise.all(waiters);
      expect(served).toEqual(Array.from({ length: 100 }, (_, i) => i));
    });

    it('lets different stripes be held at the same time', () => {
      const lock = makeLock({ stripes: 64 });
      const guards = new Map<number, Guard>();
      for (let key = 0; guards.size < 64; key++) {
        const stripe = lock.stripeOf(key);
        const guard = lock.tryAcquire(key);
        expect(guard === undefined).toBe(guards.has(stripe));
        if (guard) guards.set(stripe, guard);
      }
      expect(lock.stats().held).toBe(64);
      for (const guard of guards.values()) guard.release();
      expect(lock.stats().held).toBe(0);
    });

    it('works with one stripe, and with the largest number of stripes', () => {
      for (const stripes of [1, 1_048_576]) {
        const lock = makeLock({ stripes });
        const guard = lock.acquireSync('key');
        expect(guard.stripes).toEqual([lock.stripeOf('key')]);
        expect(lock.tryAcquire('key')).toBeUndefined();
        guard.release();
      }
    });

    it('keeps locks apart: a key held in one lock is free in another', () => {
      const [a, b] = [makeLock(), makeLock()];
      const guard = a.acquireSync('key');
      expect(b.tryAcquire('key')).toBeDefined();
      guard.release();
    });
  });
};
