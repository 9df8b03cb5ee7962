import { setTimeout as delay } from 'node:timers/promises';
import { threadId } from 'node:worker_threads';
import { DeadlockError, LockTimeoutError } from 'stripelock';
import { describe, expect, it } from 'vitest';
import { Agent } from '../support/agent.js';
import type { Suite } from '../support/engine.js';
import { keysApart } from '../support/keys.js';
import { rejectionOf, thrownBy, turns, until, watch } from '../support/waiting.js';

/** Milliseconds: no wait of these tests comes near it, even on a busy machine. */
const LONG = 30_000;

/** Waits for a key as `name`, notes that in `order`, holds the key for a turn of the microtasks, and releases it. */
type Join = (name: string, options?: object) => Promise<void>;

export const crowdsSuite: Suite = (makeLock, engine) => {
  // Without options `withLock` has a separate code path to pass a key on.
  describe.each(['acquire', 'withLock'] as const)('with %s:', (how) => {
    function scene(): { lock: ReturnType<typeof makeLock>; order: string[]; join: Join } {
      const lock = makeLock({ timeout: LONG });
      const order: string[] = [];
      const join: Join = async (name, options) => {
        if (how === 'withLock' && options === undefined) {
          return lock.withLock('key', async () => {
            order.push(name);
            await Promise.resolve();
          });
        }
        const guard = await lock.acquire('key', options);
        order.push(name);
        await Promise.resolve();
        guard.release();
      };
      return { lock, order, join };
    }

    describe('many tasks of one thread at one key', () => {
      it('are granted it one at a time, in the order of arrival', async () => {
        const { lock, order, join } = scene();
        const names = Array.from({ length: 3000 }, (_, i) => `task ${i}`);
        await Promise.all(names.map((name) => join(name)));
        expect(order).toEqual(names);
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0 });
      });

      it('keep their order if some of them share it, or also want other keys', async () => {
        const { lock, order, join } = scene();
        const guard = lock.acquireSync('key');
        const all = [join('a'), join('b'), join('shared', { mode: 'shared' }), join('c'), join('d')];
        const both = lock.acquire(['key', 'other']).then((several) => {
          order.push('several');
          several.release();
        });
        all.push(both, join('e'));
        guard.release();
        await Promise.all(all);
        expect(order).toEqual(['a', 'b', 'shared', 'c', 'd', 'several', 'e']);
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
      });

      it('lose those that time out, at any place, and no others', async () => {
        const { lock, order, join } = scene();
        const guard = lock.acquireSync('key');
        const late = [5, 10, 20].map((timeout) => rejectionOf(lock.acquire('key', { timeout })));
        const others = ['a', 'b'].map((name) => join(name));
        late.push(rejectionOf(lock.acquire('key', { timeout: 15 })));
        others.push(join('c'));
        for (const error of await Promise.all(late)) expect(error).toBeInstanceOf(LockTimeoutError);
        expect(lock.stats()).toMatchObject({ waiting: 3, timeouts: 4 });
        guard.release();
        await Promise.all(others);
        expect(order).toEqual(['a', 'b', 'c']);
      });

      it('lose those that are aborted, at any place, and no others', async () => {
        const { lock, order, join } = scene();
        const guard = lock.acquireSync('key');
        const aborts = Array.from({ length: 4 }, () => new AbortController());
        const aborted: Promise<unknown>[] = [];
        const others: Promise<void>[] = [];
        for (const [i, { signal }] of aborts.entries()) {
          aborted.push(rejectionOf(lock.acquire('key', { signal })));
          others.push(join(`task ${i}`));
        }
        aborted.push(rejectionOf(lock.acquire('key', { signal: aborts[3]!.signal })));
        for (const [i, abort] of aborts.entries()) abort.abort(i);
        expect(await Promise.all(aborted)).toEqual([0, 1, 2, 3, 3]);
        expect(lock.stats()).toMatchObject({ waiting: 4, aborts: 5 });
        guard.release();
        await Promise.all(others);
        expect(order).toEqual(['task 0', 'task 1', 'task 2', 'task 3']);
      });

      it('pass on the grant if the first is aborted before it sees the grant', async () => {
        const { lock, order, join } = scene();
        const guard = lock.acquireSync('key');
        const abort = new AbortController();
        const aborted = rejectionOf(lock.acquire('key', { signal: abort.signal }));
        const next = join('next');
        guard.release();
        abort.abort('over');
        expect(await aborted).toBe('over');
        await next;
        expect(order).toEqual(['next']);

        const last = lock.acquireSync('key');
        const another = new AbortController();
        const gone = rejectionOf(lock.acquire('key', { signal: another.signal }));
        last.release();
        another.abort('over');
        await gone;
        await turns();
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
        lock.acquireSync('key').release();
      });

      engine.acrossThreads(
        'are passed on from one that was aborted while another thread holds the key',
        async () => {
          const { lock, order, join } = scene();
          const other = await Agent.start(lock);
          const theirs = await other.acquireSync('key');
          const abort = new AbortController();
          const aborted = rejectionOf(lock.acquire('key', { signal: abort.signal }));
          const all = ['a', 'b', 'c'].map((name) => join(name));
          await turns();
          abort.abort('over');
          expect(await aborted).toBe('over');
          expect(lock.stats()).toMatchObject({ waiting: 3 });
          await theirs.release();
          await Promise.all(all);
          expect(order).toEqual(['a', 'b', 'c']);
          expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
        },
      );

      engine.acrossThreads(
        'are passed on from those that time out together while another thread holds the key',
        async () => {
          const { lock, order, join } = scene();
          const other = await Agent.start(lock);
          const keys = keysApart(lock, 40);
          const theirs = await other.acquireSync(['key', ...keys]);
          const late = [...keys, 'key'].map((key) => rejectionOf(lock.acquire(key, { timeout: 5 })));
          const all = keys.map((key) => lock.acquire(key));
          const crowd = ['a', 'b'].map((name) => join(name));
          for (const error of await Promise.all(late)) expect(error).toBeInstanceOf(LockTimeoutError);
          await theirs.release();
          for (const guard of await Promise.all(all)) guard.release();
          await Promise.all(crowd);
          expect(order).toEqual(['a', 'b']);
          expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
        },
      );

      it('come after a sync acquisition of their thread that is made before they see their turn', async () => {
        const { lock, order, join } = scene();
        const guard = lock.acquireSync('key');
        const all = ['a', 'b'].map((name) => join(name));
        guard.release();
        lock.withLockSync('key', () => order.push('sync'));
        await Promise.all(all);
        expect(order).toEqual(['sync', 'a', 'b']);
      });

      engine.acrossThreads('do not keep the key from others while their thread blocks', async () => {
        const { lock, order, join } = scene();
        const other = await Agent.start(lock);
        const theirs = await other.acquireSync('blocks us');
        const guard = lock.acquireSync('key');
        const all = ['a', 'b'].map((name) => join(name));
        const waiting = other.acquire('key').then(async (got) => {
          // The other thread lets go of this only once it has the key.
          await theirs.release();
          return got;
        });
        await until(() => lock.stats().waiting === 3, 'it waits');
        guard.release();
        const released = other.releaseAfter(theirs, 50);
        lock.acquireSync('blocks us').release();
        await released;
        await (await waiting).release();
        await Promise.all(all);
        expect(order).toEqual(['a', 'b']);
      });

      it('are a deadlock for their own thread if it blocks for the key that one of them holds', async () => {
        const { lock, order, join } = scene();
        const guard = lock.acquireSync('key');
        const all = ['a', 'b'].map((name) => join(name));
        expect(thrownBy(() => lock.acquireSync('key'))).toBeInstanceOf(DeadlockError);
        expect(lock.tryAcquire('key')).toBeUndefined();
        guard.release();
        await Promise.all(all);
        expect(order).toEqual(['a', 'b']);
      });

      engine.acrossThreads('are counted and listed, also for other threads', async () => {
        const { lock, join } = scene();
        const other = await Agent.start(lock);
        const guard = lock.acquireSync('key');
        const all = Array.from({ length: 5 }, (_, i) => join(`task ${i}`));
        await delay(5);
        expect(lock.stats()).toMatchObject({ held: 1, waiting: 5, contended: 5 });
        expect(await other.stats()).toEqual(lock.stats());
        const waiter = engine.isOfFile
          ? { threadId, since: expect.any(Number) as number }
          : { threadId, kind: 'async', mode: 'exclusive', waitingFor: expect.any(Number) as number };
        const state = { mode: 'exclusive', holders: [{ threadId }] };
        expect(lock.inspect()).toMatchObject([{ ...state, waiters: all.map(() => waiter) }]);
        // The JavaScript engine lists the waiters of the thread that asks.
        if (engine.name === 'native') {
          expect(await other.inspect()).toMatchObject([{ ...state, waiters: all.map(() => waiter) }]);
        }
        guard.release();
        await Promise.all(all);
        expect(await other.stats()).toMatchObject({ held: 0, waiting: 0, contended: 5 });
      });

      it('leave the event loop its turns', async () => {
        const { join } = scene();
        let done = false;
        const tasks = ['a', 'b', 'c'].map(async (name) => {
          while (!done) await join(name);
        });
        await delay(1);
        done = true;
        await Promise.all(tasks);
      });

      engine.acrossThreads('leave other threads their turns', async () => {
        const { lock, order, join } = scene();
        const others = [await Agent.start(lock), await Agent.start(lock)];
        let done = false;
        const tasks = ['a', 'b', 'c', 'd'].map(async (name) => {
          while (!done) await join(name);
        });
        for (let i = 0; i < 20; i++) {
          for (const other of others) await (await other.acquireSync('key')).release();
          for (const other of others) await (await other.acquire('key')).release();
        }
        done = true;
        await Promise.all(tasks);
        expect(new Set(order).size).toBe(4);
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0 });
      });

      engine.acrossThreads(
        'still time out if their thread blocks before they learn of their turn, and others hold the key',
        async () => {
          const lock = makeLock({ timeout: 100 });
          const [blocker, other] = [await Agent.start(lock), await Agent.start(lock)];
          const theirs = await blocker.acquireSync('blocks us');
          const guard = lock.acquireSync('key');
          let runs = 0;
          const late = rejectionOf(
            how === 'withLock' ? lock.withLock('key', () => runs++) : lock.acquire('key').then(() => runs++),
          );
          // It comes while this thread is blocked, which takes far more than the timeout of the task.
          const got = other.acquireSync('key', { timeout: LONG });
          const released = blocker.releaseAfter(theirs, 700);
          guard.release();
          lock.acquireSync('blocks us', { timeout: LONG }).release();
          await released;
          const its = await got;
          expect(await late).toBeInstanceOf(LockTimeoutError);
          await its.release();
          expect(runs).toBe(0);
          expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 1 });
        },
      );

      it('pass the key to one whose promise is not awaited, as to any other', async () => {
        const { lock, join } = scene();
        const guard = lock.acquireSync('key');
        const forgotten = watch(lock.acquire('key'));
        const next = join('next', { timeout: 20 });
        guard.release();
        expect(await rejectionOf(next)).toBeInstanceOf(LockTimeoutError);
        expect(lock.stats()).toMatchObject({ held: 1, waiting: 0 });
        (await forgotten.promise).release();
        lock.acquireSync('key').release();
      });
    });
  });
};
