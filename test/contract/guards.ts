import { describe, expect, it, onTestFinished } from 'vitest';
import { Guard, LockError } from 'stripelock';
import type { Suite } from '../support/engine.js';
import { keysApart } from '../support/keys.js';
import { thrownBy } from '../support/waiting.js';

export const guardsSuite: Suite = (makeLock) => {
  describe('guards', () => {
    it('show keys, stripes and mode, also after release', () => {
      const lock = makeLock();
      const bytes = new Uint8Array([1, 2]);
      for (const key of ['text', 7, bytes]) {
        const guard = lock.acquireSync(key);
        for (let i = 0; i < 2; i++) {
          expect(guard.keys).toEqual([key]);
          expect(guard.stripes).toEqual([lock.stripeOf(key)]);
          expect(guard.mode).toBe('exclusive');
          guard.release();
        }
      }
    });

    it('may be released any number of times, and in any order', () => {
      const lock = makeLock();
      const keys = keysApart(lock, 4);
      const guards = keys.map((key) => lock.acquireSync(key));
      for (const [left, i] of [2, 0, 3, 1].entries()) {
        expect(lock.stats().held).toBe(4 - left);
        guards[i]!.release();
        guards[i]!.release();
        expect(guards[i]!.held).toBe(false);
        expect(lock.tryAcquire(keys)).toEqual(left === 3 ? expect.any(Guard) : undefined);
      }
    });

    it('that were released never free what another guard of this thread holds now', async () => {
      const lock = makeLock();
      for (const mode of ['exclusive', 'shared'] as const) {
        const first = lock.acquireSync(['key', 'other'], { mode });
        first.release();
        const second = await lock.acquire('key', { mode });
        first.release();
        first[Symbol.dispose]();
        expect(second.held).toBe(true);
        expect(lock.tryAcquire('key')).toBeUndefined();
        second.release();
        expect(lock.stats().held).toBe(0);
      }
    });

    it('that are shared count one by one', () => {
      const lock = makeLock();
      const [one, two] = [
        lock.acquireSync('key', { mode: 'shared' }),
        lock.acquireSync('key', { mode: 'shared' }),
      ];
      for (let i = 0; i < 3; i++) one.release();
      expect(lock.tryAcquire('key')).toBeUndefined();
      two.release();
      lock.tryAcquire('key')!.release();
    });

    it('are disposed of by using, also on a throw, and after an explicit release', () => {
      const lock = makeLock();
      {
        using guard = lock.acquireSync('key');
        expect(guard.held).toBe(true);
        expect(lock.tryAcquire('key')).toBeUndefined();
      }
      expect(lock.stats().held).toBe(0);
      const failing = (): void => {
        using _guard = lock.acquireSync('key');
        throw new Error('inside');
      };
      expect(failing).toThrow('inside');
      expect(lock.stats().held).toBe(0);
      const other = ((): Guard => {
        using guard = lock.acquireSync('key');
        guard.release();
        return lock.acquireSync('key');
      })();
      expect(other.held).toBe(true);
      expect(lock.tryAcquire('key')).toBeUndefined();
      other.release();
    });

    it('may be undefined in using, which then does nothing', () => {
      const lock = makeLock();
      const holder = lock.acquireSync('key');
      {
        using attempt = lock.tryAcquire('key');
        expect(attempt).toBeUndefined();
      }
      expect(holder.held).toBe(true);
      holder.release();
    });

    it('are not abandoned if no thread died', async () => {
      const lock = makeLock();
      const first = lock.acquireSync('key');
      const waiting = lock.acquire('key');
      expect(first.abandoned).toBe(false);
      first.release();
      const second = await waiting;
      expect(second.abandoned).toBe(false);
      second.release();
      expect(lock.stats().abandoned).toBe(0);
    });

    it('give a token that rises, is read first while held, and then stays', () => {
      const lock = makeLock();
      const first = lock.acquireSync('key');
      const { token } = first;
      expect(typeof token).toBe('bigint');
      expect(token).toBeGreaterThan(0n);
      first.release();
      expect(first.token).toBe(token);
      const second = lock.acquireSync('key');
      const later = second.token;
      expect(later).toBeGreaterThan(token);
      expect(second.token).toBe(later);
      second.release();
    });

    it('of a new lock have tokens that begin at the real time, even if a test replaces Date.now', () => {
      const real = Date.now;
      onTestFinished(() => {
        Date.now = real;
      });
      const before = BigInt(real()) * 1_000_000n;
      for (const now of [0, 1.5, NaN, -1, Infinity]) {
        Date.now = () => now;
        const guard = makeLock({ stripes: 1 }).acquireSync('key');
        expect(guard.token).toBeGreaterThan(before);
        guard.release();
      }
    });

    it('have no token if it is first read after the release', () => {
      const lock = makeLock();
      const guard = lock.acquireSync(['a', 'b']);
      guard.release();
      const error = thrownBy(() => guard.token);
      expect(error).toBeInstanceOf(LockError);
      expect(error).toMatchObject({ name: 'LockError', code: 'ERR_LOCK_NOT_HELD' });
    });

    it('give tokens that rise for each key, however the sets of keys overlap', async () => {
      const lock = makeLock();
      const [a, b, c] = keysApart(lock, 3) as [string, string, string];
      let last = 0n;
      for (const keys of [[a, b], [b, c], [c, a], [a], [a, b, c], [c]]) {
        const guard = await lock.acquire(keys);
        expect(guard.token).toBeGreaterThan(last);
        last = guard.token;
        guard.release();
      }
    });
  });
};
