import { describe, expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { Agent, RemoteGuard } from '../support/agent.js';
import type { Suite } from '../support/engine.js';
import { runThreads, startThread } from '../support/threads.js';
import { thrownBy } from '../support/waiting.js';

export const workerThreadsSuite: Suite = (makeLock) => {
  describe('worker threads', () => {
    it('come and go: a second generation continues where the first ended', async () => {
      const lock = makeLock({ stripes: 3, timeout: 30_000 });
      const cells = new SharedArrayBuffer(4 * 8);
      const rounds = 500;
      for (let generation = 1; generation <= 3; generation++) {
        await runThreads(
          'key-sets.mjs',
          Array.from({ length: 4 }, () => ({ handle: lock.handle, cells, rounds, keys: [0, 3, 7] })),
        );
        const expected = generation * 4 * rounds;
        expect([0, 3, 7].map((key) => new Int32Array(cells)[key])).toEqual([expected, expected, expected]);
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0, abandoned: 0 });
      }
    });

    it('can use a lock after the thread that made it has ended', async () => {
      const [lock] = await runThreads<{ handle: StripedLock['handle'] }>('make-lock.mjs', [
        { options: { name: 'orphan', stripes: 5, engine: makeLock().engine } },
      ]);
      const orphan = StripedLock.from(lock!.handle);
      expect(orphan).toMatchObject({ name: 'orphan', stripes: 5 });
      const other = await Agent.start(orphan);
      const guard = orphan.acquireSync('key');
      const waiting = other.acquireSync('key', { timeout: 20_000 });
      guard.release();
      await (await waiting).release();
      expect(orphan.stats()).toMatchObject({ held: 0, waiting: 0 });
    });

    it('may open many locks, and each lock in many threads', async () => {
      const locks = Array.from({ length: 20 }, () => makeLock({ stripes: 2, timeout: 30_000 }));
      const cells = new SharedArrayBuffer(4 * locks.length);
      const rounds = 50;
      await runThreads(
        'many-locks.mjs',
        Array.from({ length: 6 }, () => ({ handles: locks.map((lock) => lock.handle), cells, rounds })),
      );
      expect([...new Int32Array(cells)]).toEqual(locks.map(() => 6 * rounds));
    });

    it('cannot be sent a guard: the error says what to send instead', async () => {
      const lock = makeLock();
      const worker = startThread('agent.mjs', { handle: lock.handle });
      for (const guard of [lock.acquireSync('key'), lock.acquireSync(['a', 'b'], { mode: 'shared' })]) {
        for (const send of [() => worker.postMessage(guard), () => structuredClone({ deep: [guard] })]) {
          const error = thrownBy(send) as Error;
          expect(error.name).toBe('DataCloneError');
          expect(error.message).toMatch(/stripelock Guard.*thread.*handle/);
        }
        guard.release();
      }
    });

    it('are not affected by further releases of a guard of another thread', async () => {
      const lock = makeLock();
      const other = await Agent.start(lock);
      const ours = lock.acquireSync('key');
      ours.release();
      const theirs = await other.acquireSync('key');
      ours.release();
      ours[Symbol.dispose]();
      expect(await theirs.held()).toBe(true);
      expect(lock.tryAcquire('key')).toBeUndefined();
      await theirs.release();
      await theirs.release();
      const again = lock.acquireSync('key');
      await theirs.release();
      expect(await other.tryAcquire('key')).toBeUndefined();
      again.release();
    });

    it('get tokens that rise from holder to holder, in any thread and by any way to acquire', async () => {
      const lock = makeLock();
      const [a, b] = await Promise.all([Agent.start(lock), Agent.start(lock)]);
      let last = 0n;
      for (let round = 0; round < 10; round++) {
        for (const take of [
          () => a.acquireSync('key'),
          () => lock.acquire('key'),
          () => b.acquire(['key', 'other']),
          () => lock.acquireSync(['key'], { mode: 'shared' }),
          () => b.tryAcquire('key'),
        ]) {
          const guard = (await take())!;
          const token = guard instanceof RemoteGuard ? await guard.token() : guard.token;
          expect(token).toBeGreaterThan(last);
          last = token;
          await guard.release();
        }
      }
    });
  });
};
