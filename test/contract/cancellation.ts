import { getEventListeners } from 'node:events';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Agent } from '../support/agent.js';
import type { Suite } from '../support/engine.js';
import { keysApart } from '../support/keys.js';
import { seedFor } from '../support/seed.js';
import { rejectionOf, turns, until, watch } from '../support/waiting.js';
import { below, randomFrom } from '../workers/random.mjs';

export const cancellationSuite: Suite = (makeLock, engine) => {
  describe('cancellation', () => {
    it('before the call takes nothing, even of a free key', async () => {
      const lock = makeLock();
      const reason = new Error('not any more');
      expect(await rejectionOf(lock.acquire('key', { signal: AbortSignal.abort(reason) }))).toBe(reason);
      expect(await rejectionOf(lock.acquire([], { signal: AbortSignal.abort(reason) }))).toBe(reason);
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
      lock.tryAcquire('key')!.release();
    });

    it('rejects with the signal’s reason, whatever that is', async () => {
      const lock = makeLock();
      lock.acquireSync('key');
      for (const reason of [new Error('stop'), 'a string', 0, null, { any: 'thing' }]) {
        const abort = new AbortController();
        const waiting = watch(lock.acquire('key', { signal: abort.signal }));
        abort.abort(reason);
        await turns(1);
        expect(waiting).toMatchObject({ state: 'rejected', reason });
      }
      const abort = new AbortController();
      const waiting = rejectionOf(lock.acquire('key', { signal: abort.signal }));
      abort.abort();
      expect(await waiting).toMatchObject({ name: 'AbortError' });
      const timedOut = rejectionOf(lock.acquire('key', { signal: AbortSignal.timeout(5) }));
      expect(await timedOut).toMatchObject({ name: 'TimeoutError' });
    });

    it('removes the waiter at once', async () => {
      const lock = makeLock();
      const guard = lock.acquireSync('key');
      const abort = new AbortController();
      const aborted = watch(lock.acquire('key', { signal: abort.signal, timeout: Infinity }));
      const next = watch(lock.acquire('key'));
      await turns();
      expect(lock.stats()).toMatchObject({ waiting: 2, aborts: 0 });
      abort.abort();
      expect(lock.stats()).toMatchObject({ waiting: 1, aborts: 1 });
      if (engine.name === 'native') expect(lock.inspect()[0]!.waiters).toHaveLength(1);
      guard.release();
      (await next.promise).release();
      expect(aborted.state).toBe('rejected');
      await turns();
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, aborts: 1, timeouts: 0 });
      expect(lock.inspect()).toEqual([]);
    });

    it('of one waiter keeps the order of the others', async () => {
      const lock = makeLock();
      const guard = lock.acquireSync('key');
      const aborts = Array.from({ length: 9 }, () => new AbortController());
      const served: number[] = [];
      const waiters = aborts.map(({ signal }, i) =>
        lock.acquire('key', { signal }).then(
          (own) => {
            served.push(i);
            own.release();
          },
          () => undefined,
        ),
      );
      for (const i of [0, 4, 8]) aborts[i]!.abort();
      guard.release();
      await Promise.all(waiters);
      expect(served).toEqual([1, 2, 3, 5, 6, 7]);
    });

    it('by one signal removes every acquisition that has this signal', async () => {
      const lock = makeLock();
      const guard = lock.acquireSync('key');
      const abort = new AbortController();
      const waiters = Array.from({ length: 100 }, () => watch(lock.acquire('key', { signal: abort.signal })));
      abort.abort();
      await turns();
      expect(new Set(waiters.map(({ state }) => state))).toEqual(new Set(['rejected']));
      expect(lock.stats()).toMatchObject({ waiting: 0, aborts: 100 });
      guard.release();
      expect(lock.stats().held).toBe(0);
    });

    engine.acrossThreads('while waiting for a later key gives back the earlier ones', async () => {
      const lock = makeLock();
      const [first, second, third] = keysApart(lock, 3) as [string, string, string];
      const other = await Agent.start(lock);
      const theirs = await other.acquireSync([first, third]);
      const abort = new AbortController();
      const waiting = watch(
        lock.acquire([first, second, third], { signal: abort.signal, timeout: Infinity }),
      );
      await until(() => lock.stats().waiting === 1, 'it waits for the first key');
      await theirs.release();
      const again = await other.tryAcquire(third);
      await turns();
      // The acquisition waits for the third key if the other thread took that first; otherwise it is granted.
      if (again !== undefined) {
        expect(waiting.state).toBe('pending');
        abort.abort();
        expect(await rejectionOf(waiting.promise)).toBe(abort.signal.reason);
        lock.tryAcquire([first, second])!.release();
        await again.release();
      } else {
        (await waiting.promise).release();
      }
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    });

    it('while the second key is held gives back the first', async () => {
      const lock = makeLock();
      const [first, second] = keysApart(lock, 2) as [string, string];
      const guard = lock.acquireSync(second);
      const abort = new AbortController();
      const waiting = rejectionOf(lock.acquire([first, second], { signal: abort.signal }));
      await turns();
      abort.abort('enough');
      expect(await waiting).toBe('enough');
      lock.tryAcquire(first)!.release();
      guard.release();
      expect(lock.stats().held).toBe(0);
    });

    it('in the same turn as the release ends in one outcome, and the key is free for the next', async () => {
      const lock = makeLock();
      for (const releaseFirst of [true, false]) {
        const guard = lock.acquireSync('key');
        const abort = new AbortController();
        const waiting = watch(lock.acquire('key', { signal: abort.signal }));
        if (releaseFirst) guard.release();
        abort.abort();
        if (!releaseFirst) guard.release();
        await turns();
        expect(waiting.state).not.toBe('pending');
        if (!releaseFirst) expect(waiting.state).toBe('rejected');
        waiting.value?.release();
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
        (await lock.acquire('key')).release();
      }
    });

    engine.acrossThreads(
      'at the moment of a release by another thread loses neither the key nor the waiter behind',
      async () => {
        const random = randomFrom(seedFor('abort and release'));
        const lock = makeLock({ timeout: 20_000 });
        const other = await Agent.start(lock);
        let granted = 0;
        let aborted = 0;
        // Which comes first is up to the scheduler. So in some rounds the abort waits until the other thread has released.
        for (let round = 0; round < 300 || granted === 0 || aborted === 0; round++) {
          const theirs = await other.acquireSync('key');
          const abort = new AbortController();
          const first = watch(lock.acquire('key', { signal: abort.signal }));
          const behind = lock.acquire('key');
          const released = theirs.release();
          for (let i = below(random, 6000); i > 0; i--) Math.sqrt(i);
          if (round % 10 === 0) await released;
          await turns(below(random, 4));
          abort.abort();
          await turns(1);
          expect(first.state).not.toBe('pending');
          if (first.value) {
            granted++;
            first.value.release();
          } else {
            aborted++;
          }
          (await behind).release();
          await released;
        }
        console.log(`abort and release: ${granted} granted, ${aborted} aborted`);
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, aborts: aborted, timeouts: 0 });
      },
    );

    it('after the grant changes nothing', async () => {
      const lock = makeLock();
      const abort = new AbortController();
      const atOnce = await lock.acquire('a', { signal: abort.signal });
      const first = lock.acquireSync('b');
      const waiting = lock.acquire('b', { signal: abort.signal });
      first.release();
      const waited = await waiting;
      abort.abort();
      await turns();
      for (const guard of [atOnce, waited]) {
        expect(guard.held).toBe(true);
        expect(lock.tryAcquire(guard.keys[0]!)).toBeUndefined();
      }
      expect(lock.stats().aborts).toBe(0);
    });

    it('leaves no listener on the signal, however the acquisition ended', async () => {
      const lock = makeLock();
      const { signal } = new AbortController();
      (await lock.acquire('free', { signal })).release();
      const guard = lock.acquireSync('key');
      await rejectionOf(lock.acquire('key', { signal, timeout: 0 }));
      await rejectionOf(lock.acquire('key', { signal, timeout: 5 }));
      const waiting = lock.acquire('key', { signal });
      expect(getEventListeners(signal, 'abort')).toHaveLength(1);
      guard.release();
      (await waiting).release();
      expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    });

    it('of thousands by one signal uses one listener, and rejects each of them', async () => {
      const lock = makeLock();
      const warnings: Error[] = [];
      const collect = (warning: Error): void => void warnings.push(warning);
      process.on('warning', collect);
      onTestFinished(() => void process.off('warning', collect));
      const guard = lock.acquireSync('key');
      const abort = new AbortController();
      const { signal } = abort;
      const waiting = Array.from({ length: 5000 }, () => rejectionOf(lock.acquire('key', { signal })));
      expect(getEventListeners(signal, 'abort')).toHaveLength(1);
      const reason = new Error('enough');
      abort.abort(reason);
      expect(new Set(await Promise.all(waiting))).toEqual(new Set([reason]));
      expect(getEventListeners(signal, 'abort')).toHaveLength(0);
      expect(lock.stats()).toMatchObject({ waiting: 0, aborts: 5000 });
      guard.release();
      await turns();
      expect(warnings).toEqual([]);
    });

    it('works through withLock, which then does not call its function', async () => {
      const lock = makeLock();
      const guard = lock.acquireSync('key');
      const abort = new AbortController();
      let called = false;
      const waiting = rejectionOf(lock.withLock('key', { signal: abort.signal }, () => (called = true)));
      abort.abort('no');
      expect(await waiting).toBe('no');
      guard.release();
      await turns();
      expect(called).toBe(false);
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    });
  });
};
