import { describe, expect, it } from 'vitest';
import { Agent } from '../support/agent.js';
import type { Suite } from '../support/engine.js';
import { openAgain } from '../support/keyed.js';
import { keysApart } from '../support/keys.js';
import { runThread, runThreads } from '../support/threads.js';
import { until, watch } from '../support/waiting.js';

export const blockWhilePendingSuite: Suite = (makeLock) => {
  describe('a thread that blocks while it has async acquisitions pending', () => {
    it('gets the key when the holder releases it, and its pending acquisition follows', async () => {
      const lock = makeLock({ stripes: 1 });
      const other = await Agent.start(lock);
      const theirs = await other.acquireSync('key');
      const pending = [watch(lock.acquire('key')), watch(lock.acquire('key'))];
      const released = other.releaseAfter(theirs, 50);
      // The pending ones came first, but nothing can be delivered to this thread while it is blocked.
      const guard = lock.acquireSync('key', { timeout: 10_000 });
      expect(pending.map(({ state }) => state)).toEqual(['pending', 'pending']);
      guard.release();
      for (const { promise } of pending) (await promise).release();
      await released;
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0, timeouts: 0 });
    });

    it('gets the key also when it was granted to its pending acquisition but not delivered yet', async () => {
      const lock = makeLock({ stripes: 1 });
      const other = await Agent.start(lock);
      for (let round = 0; round < 20; round++) {
        const theirs = await other.acquireSync('key');
        const pending = watch(lock.acquire('key'));
        const released = other.releaseAfter(theirs, 1);
        // Long enough for the grant to be sent. It cannot arrive, as the event loop does not turn.
        block(5 + (round % 3));
        const guard = lock.acquireSync('key', { timeout: 10_000 });
        expect(guard.held).toBe(true);
        expect(lock.tryAcquire('key')).toBeUndefined();
        guard.release();
        (await pending.promise).release();
        await released;
      }
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0 });
    });

    it('can block again and again in one turn', async () => {
      const lock = makeLock({ stripes: 1 });
      const other = await Agent.start(lock);
      const theirs = await other.acquireSync('key');
      const pending = Array.from({ length: 5 }, () => watch(lock.acquire('key')));
      const released = other.releaseAfter(theirs, 10);
      for (let i = 0; i < 100; i++) lock.acquireSync('key', { timeout: 10_000 }).release();
      expect(pending.every(({ state }) => state === 'pending')).toBe(true);
      for (const { promise } of pending) (await promise).release();
      await released;
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0, timeouts: 0 });
    });

    it('gets another key from a thread that is blocked behind its pending acquisition', async () => {
      const lock = makeLock({ stripes: 64 });
      const [wanted, pendingKey] = keysApart(lock, 2) as [string, string];
      const holder = await Agent.start(lock);
      const held = await holder.acquireSync(pendingKey);
      const gate = new SharedArrayBuffer(4);
      const other = runThread<string>('hold-and-wait.mjs', { handle: lock.handle, gate, wanted, pendingKey });
      await until(() => Atomics.load(new Int32Array(gate), 0) === 1, 'the other thread holds what is wanted');
      const pending = watch(lock.acquire(pendingKey, { timeout: Infinity }));
      Atomics.store(new Int32Array(gate), 0, 2);
      Atomics.notify(new Int32Array(gate), 0);
      await until(() => lock.stats().waiting === 2, 'both wait');
      const released = holder.releaseAfter(held, 20);
      // The pending acquisition is first in the queue, but this thread is blocked and could not use a grant. The other
      // thread is next, and will release what this thread blocks for.
      lock.acquireSync(wanted, { timeout: 10_000 }).release();
      (await pending.promise).release();
      expect(await other).toBe('done');
      await released;
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0, timeouts: 0 });
    });

    it('can do so in several threads at once', async () => {
      const lock = makeLock({ stripes: 1, timeout: 30_000 });
      const again = openAgain(lock);
      const cells = new SharedArrayBuffer(4);
      const results = await runThreads<number>(
        'block-while-pending.mjs',
        Array.from({ length: 4 }, () => ({ handle: again.handle, cells, rounds: 500 })),
      );
      expect(new Int32Array(cells)[0]).toBe(results.reduce((sum, added) => sum + added, 0));
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0, timeouts: 0 });
    });
  });
};

/** Blocks this thread, so that its event loop does not turn. */
function block(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}
