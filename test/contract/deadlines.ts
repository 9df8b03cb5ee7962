import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LockError, LockTimeoutError } from 'stripelock';
import { Agent } from '../support/agent.js';
import type { Suite } from '../support/engine.js';
import { block } from '../support/block.js';
import { keysApart } from '../support/keys.js';
import { rejectionOf, thrownBy, turns, until, watch } from '../support/waiting.js';

/** Milliseconds by which clocks may differ, as they round differently. */
const ROUNDING = 2;

export const deadlinesSuite: Suite = (makeLock) => {
  describe('deadlines', () => {
    it('fail an acquisition after its timeout, not before, and leave nothing behind', async () => {
      const lock = makeLock({ timeout: 60 });
      const other = await Agent.start(lock);
      const theirs = await other.acquireSync('key');
      for (const [timeout, options] of [
        [60, undefined],
        [120, { timeout: 120 }],
        [20.5, { timeout: 20.5 }],
      ] as const) {
        const start = performance.now();
        const error = await rejectionOf(lock.acquire('key', options));
        expect(performance.now() - start).toBeGreaterThanOrEqual(timeout - ROUNDING);
        expect(error).toBeInstanceOf(LockTimeoutError);
        expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', timeout });

        const startSync = performance.now();
        const errorSync = thrownBy(() => lock.acquireSync('key', options));
        expect(performance.now() - startSync).toBeGreaterThanOrEqual(timeout - ROUNDING);
        expect(errorSync).toBeInstanceOf(LockTimeoutError);
        expect(errorSync).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', timeout });
      }
      expect(lock.stats()).toMatchObject({ held: 1, waiting: 0, timeouts: 6, contended: 6 });
      await theirs.release();
      expect(lock.tryAcquire('key')).toBeDefined();
    });

    it('name in the error the lock, the keys, the stripe, the time and the holding thread', async () => {
      const lock = makeLock({ name: 'ledger' });
      const other = await Agent.start(lock);
      const keys = keysApart(lock, 3);
      await other.acquireSync(keys[1]!);
      const stripe = lock.stripeOf(keys[1]!);
      for (const error of [
        thrownBy(() => lock.acquireSync(keys, { timeout: 15 })),
        await rejectionOf(lock.acquire(keys, { timeout: 15 })),
      ]) {
        expect(error).toBeInstanceOf(LockTimeoutError);
        expect(error).toBeInstanceOf(LockError);
        expect(error).toMatchObject({ name: 'LockTimeoutError', keys, stripe, timeout: 15 });
        const { message, stack } = error as Error;
        for (const part of ['"ledger"', ...keys, '15 ms', `stripe ${stripe}`, `thread ${other.threadId}`]) {
          expect(message).toContain(part);
        }
        expect(stack).toContain('LockTimeoutError');
      }
    });

    it('keep error messages short for long keys, and show bytes and integers', () => {
      const lock = makeLock({ stripes: 1 });
      lock.acquireSync('key');
      const keys = ['x'.repeat(100_000), -5, new Uint8Array([0xca, 0xfe]), 'line\nbreak', 'fifth', 'sixth'];
      const { message } = thrownBy(() => lock.acquireSync(keys, { timeout: 0 })) as Error;
      expect(message.length).toBeLessThan(500);
      expect(message).not.toContain('\n');
      for (const part of ['"xxxx', '-5', 'cafe', '2 more']) expect(message).toContain(part);
    });

    it('of more than 2^31 ms and of Infinity do not fire early', async () => {
      const lock = makeLock({ timeout: Infinity });
      const other = await Agent.start(lock);
      // The longest comes first: a timer that is set for a shorter timeout is not set again for a longer one.
      const long = [
        Infinity,
        Number.MAX_VALUE,
        2 ** 64,
        2 ** 63,
        2 ** 53,
        2 ** 32 + 10,
        2 ** 32,
        2 ** 31,
        2 ** 31 - 1,
      ];
      const [asyncKey, syncKey] = keysApart(lock, 2) as [string, string];
      const warnings: Error[] = [];
      const collect = (warning: Error): void => void warnings.push(warning);
      process.on('warning', collect);
      onTestFinished(() => void process.off('warning', collect));
      let theirs = await other.acquireSync(asyncKey);
      const waiters = [...long.map((timeout) => lock.acquire(asyncKey, { timeout })), lock.acquire(asyncKey)];
      const watched = waiters.map(watch);
      // A timeout that overflows would fire at once. A timer that overflows would fire again and again, and Node would
      // warn.
      await delay(60);
      expect(warnings).toEqual([]);
      expect(watched.map(({ state }) => state)).toEqual(watched.map(() => 'pending'));
      await theirs.release();
      for (const waiter of waiters) (await waiter).release();

      for (const timeout of long) {
        const ours = lock.acquireSync(syncKey);
        const blocked = watch(other.acquireSync(syncKey, { timeout }));
        await until(() => lock.stats().waiting === 1, 'the other thread is blocked');
        await delay(20);
        expect(blocked.state).toBe('pending');
        ours.release();
        theirs = await blocked.promise;
        await theirs.release();
      }
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0 });
    });

    it('apply to the whole acquisition, however many of its keys it waits for', async () => {
      const timeout = 800;
      const lock = makeLock({ timeout });
      const keys = keysApart(lock, 3);
      const [holder, a, b] = await Promise.all([Agent.start(lock), Agent.start(lock), Agent.start(lock)]);
      const held = await Promise.all(keys.map((key) => holder.acquireSync(key)));
      const start = performance.now();
      const waiting = [watch(a.acquireSync(keys)), watch(b.acquire(keys))];
      await until(() => lock.stats().waiting === 2, 'both wait');
      // The first key becomes free late, and one of them takes it. That must not restart its timeout.
      await holder.releaseAfter(held[0]!, 600);
      const errors = await Promise.all(waiting.map(({ promise }) => rejectionOf(promise)));
      const elapsed = performance.now() - start;
      for (const error of errors) expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', timeout });
      // With a restart it would take 600 + 800 ms.
      expect(elapsed).toBeLessThan(1350);
      expect(lock.stats()).toMatchObject({ held: 2, waiting: 0 });
      expect(lock.tryAcquire(keys[0]!)).toBeDefined();
    });

    it('that pass release the keys taken so far for other waiters', async () => {
      const lock = makeLock();
      const [first, second] = keysApart(lock, 2) as [string, string];
      const other = await Agent.start(lock);
      await other.acquireSync(second);
      const both = watch(lock.acquire([first, second], { timeout: 150 }));
      const behind = lock.acquire(first, { timeout: 10_000 });
      (await behind).release();
      // Either the acquisition behind waited until the timeout, or this engine holds nothing while it waits.
      expect(['pending', 'rejected']).toContain(both.state);
      expect(await rejectionOf(both.promise)).toBeInstanceOf(LockTimeoutError);
      lock.acquireSync(first).release();
    });

    it('fire in the order of their times, not of arrival, and only for those whose time is up', async () => {
      const lock = makeLock();
      const guard = lock.acquireSync('key');
      const order: number[] = [];
      const timeouts = [250, 50, 150, 200, 100];
      const failing = timeouts.map((timeout) =>
        lock.acquire('key', { timeout }).catch(() => order.push(timeout)),
      );
      const patient = watch(lock.acquire('key', { timeout: 60_000 }));
      await Promise.all(failing);
      expect(order).toEqual([50, 100, 150, 200, 250]);
      expect(patient.state).toBe('pending');
      expect(lock.stats()).toMatchObject({ waiting: 1, timeouts: 5 });
      guard.release();
      expect((await patient.promise).held).toBe(true);
    });

    it('fire in the order of their times, however late the event loop is', async () => {
      const lock = makeLock();
      const guard = lock.acquireSync('key');
      /** Between which times each of them is due: there may be a pause between two calls. */
      const order: { earliest: number; latest: number }[] = [];
      const failing = [40, 10, 30, 20].map((timeout) => {
        const earliest = performance.now() + timeout;
        const waiting = lock.acquire('key', { timeout });
        const latest = performance.now() + timeout;
        return waiting.catch(() => order.push({ earliest, latest }));
      });
      // They have begun to wait, and their times are known.
      await turns(3);
      block(100);
      await Promise.all(failing);
      expect(order).toHaveLength(4);
      for (const [i, { latest }] of order.slice(1).entries())
        expect(order[i]!.earliest).toBeLessThanOrEqual(latest);
      guard.release();
    });

    it('do not fire after the grant', async () => {
      const lock = makeLock();
      const first = lock.acquireSync('key');
      const waiting = lock.acquire('key', { timeout: 40 });
      first.release();
      const guard = await waiting;
      await delay(60);
      expect(guard.held).toBe(true);
      expect(lock.tryAcquire('key')).toBeUndefined();
      expect(lock.stats().timeouts).toBe(0);
    });
  });
};

export const oneAttemptSuite: Suite = (makeLock) => {
  describe('a timeout of 0', () => {
    it('makes one attempt on free keys, which succeeds and can be released, in every mode', async () => {
      const lock = makeLock();
      for (const keys of ['key', ['key', 'another', 'third']]) {
        for (const mode of ['exclusive', 'shared'] as const) {
          const options = { timeout: 0, mode };
          for (const acquire of [() => lock.acquireSync(keys, options), () => lock.acquire(keys, options)]) {
            const guard = await acquire();
            expect(guard.held).toBe(true);
            expect(lock.tryAcquire(keys)).toBeUndefined();
            guard.release();
            expect(lock.stats().held).toBe(0);
            lock.tryAcquire(keys)!.release();
          }
        }
      }
    });

    it('makes one attempt on a held key, which fails at once', async () => {
      const lock = makeLock();
      const guard = lock.acquireSync('key');
      const { timeouts } = lock.stats();
      expect(thrownBy(() => lock.acquireSync('key', { timeout: 0 }))).toBeInstanceOf(LockTimeoutError);
      const attempt = watch(lock.acquire('key', { timeout: 0 }));
      // If the attempt waited in a queue, this release would grant it the key.
      guard.release();
      await turns();
      expect(attempt.reason).toBeInstanceOf(LockTimeoutError);
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, contended: 0, timeouts: timeouts + 2 });
    });

    it('can be the default of the lock', async () => {
      const lock = makeLock({ timeout: 0 });
      const guard = lock.acquireSync('key');
      expect(thrownBy(() => lock.acquireSync('key'))).toBeInstanceOf(LockTimeoutError);
      expect(await rejectionOf(lock.acquire('key'))).toBeInstanceOf(LockTimeoutError);
      guard.release();
    });
  });
};
