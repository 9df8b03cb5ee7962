import { threadId } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { Agent } from '../support/agent.js';
import type { Suite } from '../support/engine.js';
import { keysApart } from '../support/keys.js';
import { rejectionOf, until, watch } from '../support/waiting.js';

/** The counters of a lock, which do not depend on stripes. */
export const statsSuite: Suite = (makeLock) => {
  describe('drained()', () => {
    it('resolves when no thread holds the lock or waits for it', async () => {
      const lock = makeLock();
      await lock.drained({ timeout: 0 });
      const other = await Agent.start(lock);
      const [a, b] = keysApart(lock, 2) as [string, string];
      const ours = lock.acquireSync(a);
      const theirs = await other.acquireSync(b, { mode: 'shared' });
      const waiting = watch(lock.acquire(b));
      await until(() => lock.stats().waiting === 1, 'one waits');
      const drained = watch(lock.drained({ timeout: 40_000 }));
      ours.release();
      expect(await rejectionOf(lock.drained({ timeout: 60 }))).toMatchObject({
        code: 'ERR_LOCK_TIMEOUT',
        timeout: 60,
        message: expect.stringContaining('is still in use after 60 ms: 1 held, 1 waiting') as string,
      });
      await theirs.release();
      const last = await waiting.promise;
      expect(drained.state).toBe('pending');
      last.release();
      await drained.promise;
    });

    it('ends with its signal, and refuses bad options', async () => {
      const lock = makeLock();
      const guard = lock.acquireSync('key');
      const controller = new AbortController();
      const drained = rejectionOf(lock.drained({ signal: controller.signal, timeout: Infinity }));
      controller.abort(new Error('enough'));
      expect(await drained).toMatchObject({ message: 'enough' });
      const bad = { timeout: -1 };
      expect(await rejectionOf(lock.drained(bad))).toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
      const unknown = { tiemout: 1 } as object;
      expect(await rejectionOf(lock.drained(unknown))).toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
      guard.release();
    });
  });

  describe('stats()', () => {
    it('count what is held and waited for now, and what happened, for all threads together', async () => {
      const lock = makeLock();
      const [a, b, c] = keysApart(lock, 3) as [string, string, string];
      const other = await Agent.start(lock);
      const ours = lock.acquireSync([a, b]);
      const shared = [
        lock.acquireSync(c, { mode: 'shared' }),
        await other.acquireSync(c, { mode: 'shared' }),
      ];
      expect(lock.stats()).toMatchObject({ held: 3, waiting: 0, contended: 0 });

      const waiting = [watch(lock.acquire(a)), watch(other.acquire([b, c])), watch(lock.acquire(a))];
      await until(() => lock.stats().waiting === 3, 'three wait');
      const abort = new AbortController();
      const aborted = rejectionOf(lock.acquire(b, { signal: abort.signal }));
      abort.abort();
      await aborted;
      await rejectionOf(other.acquireSync(a, { timeout: 5 }));
      const now = { held: 3, waiting: 3, contended: 5, timeouts: 1, aborts: 1, deadlocks: 0, abandoned: 0 };
      expect(lock.stats()).toMatchObject(now);
      expect(await other.stats()).toEqual(lock.stats());

      ours.release();
      for (const guard of shared) await guard.release();
      for (const { promise } of waiting) await (await promise).release();
      expect(lock.stats()).toMatchObject({ ...now, held: 0, waiting: 0 });
    });

    it('do not count an acquisition as contended if it got its keys at once', async () => {
      const lock = makeLock();
      for (let i = 0; i < 100; i++) {
        lock.acquireSync(i).release();
        (await lock.acquire([i, i + 1])).release();
        lock.tryAcquire('key')!.release();
        lock.acquireSync('shared', { mode: 'shared' }).release();
      }
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, contended: 0, timeouts: 0 });
    });

    it('count a failed attempt neither as a wait nor as a timeout, because it is not an error', () => {
      const lock = makeLock();
      const [first, second] = keysApart(lock, 2) as [string, string];
      lock.acquireSync(second);
      expect(lock.tryAcquire(second)).toBeUndefined();
      expect(lock.tryAcquire([first, second])).toBeUndefined();
      expect(lock.stats()).toMatchObject({ held: 1, contended: 0, timeouts: 0, deadlocks: 0 });
    });
  });
};

export const inspectSuite: Suite = (makeLock, engine) => {
  it('stats() of a new lock are all zero', () => {
    const lock = makeLock({ stripes: 12 });
    expect(lock.stats()).toEqual({
      engine: engine.name,
      stripes: 12,
      held: 0,
      waiting: 0,
      contended: 0,
      timeouts: 0,
      aborts: 0,
      deadlocks: 0,
      abandoned: 0,
    });
  });

  describe('inspect()', () => {
    it('is empty for an unused lock', () => {
      const lock = makeLock();
      expect(lock.inspect()).toEqual([]);
      lock.acquireSync(['a', 'b']).release();
      expect(lock.inspect()).toEqual([]);
    });

    it('shows stripes in ascending order, with their mode and the threads that hold them', async () => {
      const lock = makeLock();
      const keys = keysApart(lock, 4) as [string, string, string, string];
      const stripes = keys.map((key) => lock.stripeOf(key));
      const other = await Agent.start(lock);
      await other.acquireSync(keys[3]);
      lock.acquireSync(keys[1]);
      await other.acquireSync(keys[0]);
      for (let i = 0; i < 2; i++) lock.acquireSync(keys[2], { mode: 'shared' });
      const states = lock.inspect();
      expect(states.map(({ stripe }) => stripe)).toEqual(stripes);
      expect(states.map(({ mode }) => mode)).toEqual(['exclusive', 'exclusive', 'shared', 'exclusive']);
      expect(states.map(({ waiters }) => waiters)).toEqual([[], [], [], []]);
      const holders = states.map((state) => state.holders.map((holder) => holder.threadId));
      expect(holders[0]).toEqual([other.threadId]);
      expect(holders[1]).toEqual([threadId]);
      expect(new Set(holders[2])).toEqual(new Set([threadId]));
      expect(holders[3]).toEqual([other.threadId]);
      // The JavaScript engine knows only the shared holds of this thread.
      const told = engine.name === 'native' ? states : states.filter(({ mode }) => mode === 'exclusive');
      expect(await other.inspect()).toEqual(expect.arrayContaining(told));
    });

    it('shows a thread that opened the lock twice as one', async () => {
      const lock = makeLock();
      const other = await Agent.start(lock);
      await other.acquireSync('key');
      const [state] = lock.inspect();
      expect(state!.holders.map((holder) => holder.threadId)).toEqual([other.threadId]);
    });

    it('always shows the waiters of this thread', async () => {
      const lock = makeLock();
      const guard = lock.acquireSync('key');
      const waiting = lock.acquire('key', { mode: 'shared' });
      const [state] = lock.inspect();
      expect(state).toMatchObject({ stripe: lock.stripeOf('key'), mode: 'exclusive' });
      expect(state!.waiters).toMatchObject([{ threadId, kind: 'async', mode: 'shared' }]);
      expect(state!.waiters[0]!.waitingFor).toBeGreaterThanOrEqual(0);
      guard.release();
      (await waiting).release();
      expect(lock.inspect()).toEqual([]);
    });

    if (engine.name === 'native') {
      it('shows the waiters of all threads in order of arrival, with the time that they have waited', async () => {
        const lock = makeLock();
        const [a, b] = await Promise.all([Agent.start(lock), Agent.start(lock)]);
        const guard = lock.acquireSync('key');
        const waiting = [watch(a.acquireSync('key', { mode: 'shared' }))];
        await until(() => lock.stats().waiting === 1, 'the first waits');
        waiting.push(watch(b.acquire('key')));
        await until(() => lock.stats().waiting === 2, 'the second waits');
        const third = watch(lock.acquire('key', { mode: 'shared' }));

        const [state, ...others] = lock.inspect();
        expect(others).toEqual([]);
        expect(state).toMatchObject({
          stripe: lock.stripeOf('key'),
          mode: 'exclusive',
          holders: [{ threadId }],
        });
        expect(state!.waiters).toMatchObject([
          { threadId: a.threadId, kind: 'sync', mode: 'shared' },
          { threadId: b.threadId, kind: 'async', mode: 'exclusive' },
          { threadId, kind: 'async', mode: 'shared' },
        ]);
        const times = state!.waiters.map(({ waitingFor }) => waitingFor);
        expect(times).toEqual(times.toSorted((x, y) => y - x));
        expect(Math.min(...times)).toBeGreaterThanOrEqual(0);
        // No longer than this test runs. A time of day or since an epoch would be far more.
        expect(Math.max(...times)).toBeLessThan(60_000);

        guard.release();
        for (const { promise } of waiting) await (await promise).release();
        (await third.promise).release();
        expect(lock.inspect()).toEqual([]);
      });

      it('lists a waiter for several keys at the stripe that it waits for now', async () => {
        const lock = makeLock();
        const keys = keysApart(lock, 3);
        const guard = lock.acquireSync(keys[1]!);
        const waiting = lock.acquire(keys);
        const waited = lock.inspect().filter(({ waiters }) => waiters.length > 0);
        expect(waited.map(({ stripe }) => stripe)).toEqual([lock.stripeOf(keys[1]!)]);
        guard.release();
        (await waiting).release();
      });
    }
  });
};
