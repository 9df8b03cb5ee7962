import { describe, expect, it } from 'vitest';
import { Agent } from '../support/agent.js';
import type { Suite } from '../support/engine.js';
import { keysApart } from '../support/keys.js';
import { runThreads } from '../support/threads.js';
import { rejectionOf, turns, until, watch } from '../support/waiting.js';

const SHARED = { mode: 'shared' } as const;

export const sharedSuite: Suite = (makeLock, engine) => {
  describe('shared acquisition', () => {
    engine.acrossThreads(
      'admits shared holders together, in one thread and in several, and no exclusive one',
      async () => {
        const lock = makeLock();
        const [a, b] = await Promise.all([Agent.start(lock), Agent.start(lock)]);
        const guards = [
          lock.acquireSync('key', SHARED),
          await lock.acquire('key', SHARED),
          lock.tryAcquire('key', SHARED)!,
          await a.acquireSync('key', SHARED),
          await b.acquire('key', SHARED),
        ];
        expect(guards.map((guard) => guard.mode)).toEqual(Array(5).fill('shared'));
        for (const guard of guards) {
          expect(lock.tryAcquire('key')).toBeUndefined();
          expect(await a.tryAcquire('key')).toBeUndefined();
          await guard.release();
        }
        expect(lock.stats().held).toBe(0);
        expect(lock.tryAcquire('key')).toBeDefined();
      },
    );

    it('waits for an exclusive holder; then all shared waiters are granted together', async () => {
      const lock = makeLock();
      const writer = lock.acquireSync('key');
      expect(lock.tryAcquire('key', SHARED)).toBeUndefined();
      const readers = Array.from({ length: 10 }, () => watch(lock.acquire('key', SHARED)));
      await turns();
      expect(readers.map((reader) => reader.state)).toEqual(Array(10).fill('pending'));
      writer.release();
      const guards = await Promise.all(readers.map((reader) => reader.promise));
      expect(guards.every((guard) => guard.held)).toBe(true);
    });

    engine.acrossThreads('grants a writer when the last shared holder released, and not before', async () => {
      const lock = makeLock();
      const other = await Agent.start(lock);
      const ours = [lock.acquireSync('key', SHARED), lock.acquireSync('key', SHARED)];
      const theirs = await other.acquireSync('key', SHARED);
      const writer = watch(lock.acquire('key'));
      for (const guard of [ours[0]!, theirs]) {
        await guard.release();
        await turns();
        expect(writer.state).toBe('pending');
      }
      ours[1]!.release();
      expect((await writer.promise).mode).toBe('exclusive');
    });

    it('grants the shared waiters behind a writer that gave up', async () => {
      const lock = makeLock();
      const reader = lock.acquireSync('key', SHARED);
      const abort = new AbortController();
      const writer = watch(lock.acquire('key', { signal: abort.signal }));
      const behind = lock.acquire('key', SHARED);
      abort.abort();
      // The first reader still holds the key: only the writer was in the way.
      expect((await behind).held).toBe(true);
      expect(writer.state).toBe('rejected');
      expect(reader.held).toBe(true);
    });

    engine.acrossThreads(
      'does not let blocked readers in past a writer that waits on an event loop',
      async () => {
        const lock = makeLock();
        const [a, b] = await Promise.all([Agent.start(lock), Agent.start(lock)]);
        // The holder is in another thread than the writer, or in the same one.
        const holders = [() => a.acquireSync('key', SHARED), async () => lock.acquire('key', SHARED)];
        for (const hold of holders) {
          const reader = await hold();
          const writer = watch(lock.acquire('key'));
          await until(() => lock.stats().waiting === 1, 'the writer waits');
          // Longer than a blocked thread sleeps without looking itself.
          const late = watch(b.acquireSync('key', { ...SHARED, timeout: 150 }));
          await rejectionOf(late.promise);
          expect(writer.state).toBe('pending');
          await reader.release();
          (await writer.promise).release();
          await (await b.acquireSync('key', SHARED)).release();
        }
      },
    );

    it('takes several keys shared', async () => {
      const lock = makeLock();
      const [a, b, c] = keysApart(lock, 3) as [string, string, string];
      const one = lock.acquireSync([a, b], SHARED);
      const two = await lock.acquire([b, c], SHARED);
      expect(lock.tryAcquire([c, a, b], SHARED)).toBeDefined();
      expect(lock.tryAcquire(b)).toBeUndefined();
      one.release();
      expect(lock.tryAcquire(c)).toBeUndefined();
      two.release();
    });

    engine.acrossThreads('shows readers only what writers finished', async () => {
      const lock = makeLock({ stripes: 1, timeout: 30_000 });
      const cells = new SharedArrayBuffer(8);
      const threads = await runThreads<{ torn: number; rounds: number }>(
        'readers-and-writers.mjs',
        ['writer', 'reader', 'reader', 'writer'].map((role) => ({
          handle: lock.handle,
          cells,
          role,
          rounds: 3000,
        })),
      );
      expect(threads.map((thread) => thread.torn)).toEqual([0, 0, 0, 0]);
      expect([...new Int32Array(cells)]).toEqual([6000, 6000]);
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0 });
    });

    // The bounds of the two tests below mean "not for ever": the other threads keep coming until the waiter is served,
    // so a starved one would never be.
    engine.acrossThreads('does not starve a writer by readers that overlap', async () => {
      const lock = makeLock({ stripes: 1, timeout: 20_000 });
      const stop = new SharedArrayBuffer(8);
      const readers = runThreads(
        'hot-loop.mjs',
        Array(3).fill({ handle: lock.handle, stop, mode: 'shared' }),
      );
      await until(() => new Int32Array(stop)[1] === 3, 'the readers run');
      for (let i = 0; i < 10; i++) (await lock.acquire('key')).release();
      Atomics.store(new Int32Array(stop), 0, 1);
      await readers;
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0 });
    });

    engine.acrossThreads('does not starve a reader by writers', async () => {
      const lock = makeLock({ stripes: 1, timeout: 20_000 });
      const stop = new SharedArrayBuffer(8);
      const writers = runThreads(
        'hot-loop.mjs',
        Array(3).fill({ handle: lock.handle, stop, mode: 'exclusive' }),
      );
      await until(() => new Int32Array(stop)[1] === 3, 'the writers run');
      for (let i = 0; i < 10; i++) (await lock.acquire('key', SHARED)).release();
      Atomics.store(new Int32Array(stop), 0, 1);
      await writers;
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0 });
    });
  });
};
