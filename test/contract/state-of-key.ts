import { describe, expect, it } from 'vitest';
import type { KeyState, OneKeyState, StripeState } from 'stripelock';
import { Agent } from '../support/agent.js';
import type { Suite } from '../support/engine.js';
import { untyped, WRONG_TYPE, WRONG_VALUE } from '../support/refusals.js';
import { rejectionOf, thrownBy, until, watch } from '../support/waiting.js';

const FREE: OneKeyState = { free: true, mode: undefined, holders: 0, waiters: 0, permitsLeft: 1 };
const HELD: OneKeyState = { free: false, mode: 'exclusive', holders: 1, waiters: 0, permitsLeft: 0 };
const SHARED: OneKeyState = { ...HELD, mode: 'shared' };

export const stateOfKeySuite: Suite = (makeLock, engine) => {
  describe('stateOf() and isLocked()', () => {
    it('report how a key is held, and how many wait for it', async () => {
      const lock = makeLock();
      expect(lock.stateOf('key')).toEqual(FREE);
      expect(lock.isLocked('key')).toBe(false);

      const guard = lock.acquireSync('key');
      expect(lock.stateOf('key')).toEqual(HELD);
      expect(lock.isLocked('key')).toBe(true);
      const next = lock.acquire('key');
      const readers = [lock.acquire('key', { mode: 'shared' }), lock.acquire(['key'], { mode: 'shared' })];
      expect(lock.stateOf('key')).toEqual({ ...HELD, waiters: 3 });

      guard.release();
      const second = await next;
      expect(lock.stateOf('key')).toEqual({ ...HELD, waiters: 2 });
      second.release();
      const guards = await Promise.all(readers);
      expect(lock.stateOf('key')).toEqual({ ...SHARED, holders: 2 });
      expect(lock.isLocked('key')).toBe(true);
      guards[0]!.release();
      expect(lock.stateOf('key')).toEqual(SHARED);
      guards[1]!.release();
      expect(lock.stateOf('key')).toEqual(FREE);
      expect(lock.isLocked('key')).toBe(false);
    });

    it('no longer count waiters that gave up', async () => {
      const lock = makeLock();
      const guard = lock.acquireSync('key');
      const abort = new AbortController();
      const ended = [
        rejectionOf(lock.acquire('key', { timeout: 5 })),
        rejectionOf(lock.acquire('key', { mode: 'shared', timeout: 5 })),
        rejectionOf(lock.acquire('key', { signal: abort.signal })),
        rejectionOf(lock.acquire('key', { mode: 'shared', signal: abort.signal })),
      ];
      expect(lock.stateOf('key').waiters).toBe(4);
      abort.abort();
      await Promise.all(ended);
      expect(lock.stateOf('key')).toEqual(HELD);
      guard.release();
      expect(lock.stateOf('key')).toEqual(FREE);
    });

    it('count what inspect() lists while threads come and go', async () => {
      const lock = makeLock();
      const under = new Set<Promise<void>>();
      for (let i = 0; i < 300; i++) {
        const mode = i % 5 === 0 ? 'shared' : 'exclusive';
        const keys = i % 7 === 0 ? ['key', 'other key'] : 'key';
        const timeout = i % 11 === 0 ? 1 : 5000;
        const use = lock.acquire(keys, { mode, timeout }).then(
          async (guard) => {
            await Promise.resolve();
            guard.release();
          },
          () => undefined,
        );
        under.add(use);
        void use.then(() => under.delete(use));
        if (i % 3 === 0) await Promise.resolve();
        const states: (Partial<KeyState> & Partial<StripeState>)[] = lock.inspect();
        const shown = states.find(({ key, stripe }) =>
          stripe === undefined ? key === 'key' : stripe === lock.stripeOf('key'),
        );
        const { mode: held, holders, waiters } = lock.stateOf('key');
        expect({ held, waiters }).toEqual({ held: shown?.mode, waiters: shown?.waiters?.length ?? 0 });
        expect(holders > 0).toBe(held !== undefined);
      }
      await Promise.all(under);
      expect(lock.stateOf('key')).toEqual(FREE);
    });

    engine.acrossThreads('tell of holders of all threads, and of the waiters that are known', async () => {
      const lock = makeLock();
      const [a, b] = await Promise.all([Agent.start(lock), Agent.start(lock)]);
      const guard = await a.acquireSync('key');
      expect(lock.stateOf('key')).toEqual(HELD);
      const first = watch(b.acquireSync('key', { mode: 'shared' }));
      await until(() => lock.stats().waiting === 1, 'the first waits');
      const second = watch(lock.acquire('key'));
      expect(lock.stateOf('key')).toEqual({ ...HELD, waiters: engine.name === 'native' ? 2 : 1 });
      await guard.release();
      // In either order: on the JavaScript engine newcomers may pass.
      await Promise.all([
        first.promise.then((held) => held.release()),
        second.promise.then((held) => held.release()),
      ]);
      const readers = [
        await a.acquireSync('key', { mode: 'shared' }),
        await b.acquire('key', { mode: 'shared' }),
      ];
      expect(lock.stateOf('key')).toEqual({ ...SHARED, holders: 2 });
      for (const reader of readers) await reader.release();
      expect(lock.stateOf('key')).toEqual(FREE);
    });

    it('refuse what is not a key', () => {
      const lock = makeLock();
      for (const method of ['stateOf', 'isLocked'] as const) {
        const call = (key: unknown): unknown => thrownBy(() => untyped(lock)[method]!(key));
        for (const key of [undefined, null, {}, ['key'], 5n]) expect(call(key)).toMatchObject(WRONG_TYPE);
        for (const key of [NaN, 0.5, 2 ** 53]) expect(call(key)).toMatchObject(WRONG_VALUE);
      }
      expect(lock.inspect()).toEqual([]);
    });
  });
};
