import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Agent } from '../support/agent.js';
import type { Suite } from '../support/engine.js';
import { keysApart } from '../support/keys.js';
import { until, watch } from '../support/waiting.js';

/** Milliseconds: more than others need to revoke a grant, even on a busy machine; far less than the thread computes. */
const TIMEOUT = 2000;
/** Milliseconds. After this time a release hands the stripe over to the head of the queue instead of freeing it. */
const HANDED_OVER = 20;

export const idleGrantsSuite: Suite = (makeLock) => {
  describe('a stripe whose next waiter is in a thread that computes', () => {
    for (const held of [0, HANDED_OVER]) {
      const how = held === 0 ? 'freed' : 'handed over';
      it(`is granted to a blocked thread, when it was ${how}`, async () => {
        const lock = makeLock();
        const busy = await Agent.start(lock);
        for (const [ours, next] of [
          ['exclusive', 'exclusive'],
          ['exclusive', 'shared'],
          ['shared', 'exclusive'],
        ] as const) {
          const guard = lock.acquireSync('key');
          const waiting = watch(busy.acquire('key', { mode: next }));
          await until(() => lock.stats().waiting === 1, 'it is queued');
          const stop = await busy.compute();
          await delay(held);
          guard.release();
          lock.acquireSync('key', { timeout: TIMEOUT, mode: ours }).release();
          expect(waiting.state).toBe('pending');
          stop();
          await (await waiting.promise).release();
        }
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0 });
      });

      it(`is granted to async waiters of other threads, when it was ${how}`, async () => {
        const lock = makeLock();
        const busy = await Agent.start(lock);
        const guard = lock.acquireSync('key');
        const waiting = watch(busy.acquire('key'));
        await until(() => lock.stats().waiting === 1, 'it is queued');
        const stop = await busy.compute();
        const others = Array.from({ length: 10 }, () => lock.acquire('key', { timeout: TIMEOUT }));
        await delay(held);
        guard.release();
        for (const other of others) (await other).release();
        expect(waiting.state).toBe('pending');
        stop();
        await (await waiting.promise).release();
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0 });
      });
    }

    it('is granted to an async waiter that has little time', async () => {
      const lock = makeLock();
      const busy = await Agent.start(lock);
      const guard = lock.acquireSync('key');
      const waiting = watch(busy.acquire('key'));
      await until(() => lock.stats().waiting === 1, 'it is queued');
      const stop = await busy.compute();
      const other = lock.acquire('key', { timeout: 2 * HANDED_OVER });
      await delay(HANDED_OVER);
      guard.release();
      (await other).release();
      stop();
      await (await waiting.promise).release();
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0 });
    });

    it('does not keep the other stripes of its set from others', async () => {
      const lock = makeLock();
      const busy = await Agent.start(lock);
      const keys = keysApart(lock, 3) as [string, string, string];
      const guard = lock.acquireSync(keys);
      const waiting = watch(busy.acquire(keys));
      await until(() => lock.stats().waiting === 1, 'it is queued');
      const stop = await busy.compute();
      await delay(HANDED_OVER);
      guard.release();
      for (const key of keys) lock.acquireSync(key, { timeout: TIMEOUT }).release();
      for (const key of keys) (await lock.acquire(key, { timeout: TIMEOUT })).release();
      stop();
      await (await waiting.promise).release();
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0 });
    });
  });
};
