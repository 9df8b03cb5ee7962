import { describe, expect, it } from 'vitest';
import { Guard } from 'stripelock';
import type { Suite } from '../support/engine.js';
import { keysApart } from '../support/keys.js';
import { runProgram } from '../support/programs.js';
import { rejectionOf, thrownBy, watch } from '../support/waiting.js';

/** A signal of which one method fails. */
function brokenSignal(method: 'addEventListener' | 'removeEventListener'): AbortSignal {
  const { signal } = new AbortController();
  return Object.assign(signal, {
    [method]: () => {
      throw new Error(`no ${method}`);
    },
  });
}

export const failuresSuite: Suite = (makeLock, engine) => {
  describe('a failure during an acquisition', () => {
    it('of the signal’s addEventListener leaves nothing taken', async () => {
      const lock = makeLock();
      const [a, b, c] = keysApart(lock, 3) as [string, string, string];
      const holder = lock.acquireSync(b);
      for (const keys of [[a, b, c], b]) {
        for (const mode of ['exclusive', 'shared'] as const) {
          const signal = brokenSignal('addEventListener');
          const error = await rejectionOf(lock.acquire(keys, { signal, mode }));
          expect(error).toMatchObject({ message: 'no addEventListener' });
          expect(lock.stats()).toMatchObject({ held: 1, waiting: 0 });
        }
      }
      holder.release();
      expect(lock.stats().held).toBe(0);
    });

    it('of the signal’s removeEventListener costs no acquisition its outcome', async () => {
      const lock = makeLock();
      const holder = lock.acquireSync('key');
      const options = (): object => ({ signal: brokenSignal('removeEventListener') });
      const waiting = [1, 2, 3].map(() => lock.acquire('key', options()));
      const late = watch(lock.acquire('key', { ...options(), timeout: 20 }));
      const later = watch(lock.acquire('key', { timeout: 30 }));
      await Promise.allSettled([late.promise, later.promise]);
      expect([late, later]).toMatchObject([{ state: 'rejected' }, { state: 'rejected' }]);
      expect([late.reason, later.reason]).toMatchObject([
        { code: 'ERR_LOCK_TIMEOUT' },
        { code: 'ERR_LOCK_TIMEOUT' },
      ]);
      holder.release();
      for (const each of waiting) (await each).release();
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    });

    it('of Error.prepareStackTrace loses no stripe of a traced lock', async () => {
      const lock = makeLock({ trace: true });
      const [a, b] = keysApart(lock, 2) as [string, string];
      const usual: unknown = Reflect.get(Error, 'prepareStackTrace');
      for (const odd of [
        () => {
          throw new Error('no stack trace');
        },
        () => undefined,
        () => 7,
        (_: Error, frames: unknown[]) => frames,
      ]) {
        Reflect.set(Error, 'prepareStackTrace', odd);
        try {
          for (const keys of [a, [a, b]]) {
            lock.tryAcquire(keys)!.release();
            lock.acquireSync(keys).release();
            (await lock.acquire(keys)).release();
            const holder = lock.acquireSync(b);
            const waiting = lock.acquire([a, b]);
            expect(lock.inspect().flatMap(({ holders }) => holders).length).toBeGreaterThan(0);
            holder.release();
            (await waiting).release();
          }
        } finally {
          Reflect.set(Error, 'prepareStackTrace', usual);
        }
        expect(lock.inspect()).toEqual([]);
      }
    });

    it('to change a frozen Error.stackTraceLimit does no harm to a traced lock', async () => {
      for (const flags of [['--frozen-intrinsics'], []]) {
        const { code, stderr } = await runProgram('frozen-trace.mjs', [engine.name], flags);
        expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
      }
    });

    it.each(['numbers', 'faked', 'faked-before'])(
      'of the timers costs no later acquisition its timeout (%s)',
      async (timers) => {
        const { code, stdout, stderr } = await runProgram('odd-timers.mjs', [engine.name, timers]);
        expect({ code, stdout, stderr: code === 0 ? '' : stderr }).toEqual({
          code: 0,
          stdout: 'granted, timed out, timed out\n',
          stderr: '',
        });
      },
    );

    it('of a subscriber of a diagnostics channel loses no stripe', async () => {
      const { code, stdout } = await runProgram('throwing-subscribers.mjs', [engine.name]);
      expect({ code, stdout }).toEqual({ code: 0, stdout: 'reported 9, held 0, waiting 0\n' });
    });
  });

  describe('a guard', () => {
    it('is never taken for a promise, even if its prototypes have a then', async () => {
      const { code, stdout, stderr } = await runProgram('thenable-guards.mjs', [engine.name]);
      expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: 'held 0\n', stderr: '' });
    });

    it('becomes JSON with what console.log shows', () => {
      const lock = makeLock();
      const guard = lock.acquireSync(['text', 7, new Uint8Array([1, 2])]);
      const shown = {
        keys: ['text', 7, [1, 2]],
        stripes: guard.stripes,
        mode: 'exclusive',
        held: true,
        abandoned: false,
      };
      expect(JSON.parse(JSON.stringify({ guard }))).toEqual({ guard: shown });
      guard.release();
      expect(JSON.parse(JSON.stringify(guard))).toEqual({ ...shown, held: false });
      const shared = lock.acquireSync('key', { mode: 'shared' });
      expect(JSON.parse(JSON.stringify(shared))).toMatchObject({ keys: ['key'], mode: 'shared', held: true });
      shared.release();
    });

    it('cannot be forged from another one', () => {
      const lock = makeLock();
      const guard = lock.acquireSync('key');
      const own = Object.values(guard) as unknown[];
      type Forge = new (...args: unknown[]) => Guard;
      for (const forge of [Guard, guard.constructor, class extends (guard.constructor as Forge) {}]) {
        const error = thrownBy(() => new (forge as Forge)(...own, 'key', 2));
        expect(error).toBeInstanceOf(TypeError);
        expect(
          thrownBy(() => Reflect.construct(forge, [...own, 'key', 2], Object) as unknown),
        ).toBeInstanceOf(TypeError);
      }
      // Nothing of the lock can be reached from what the guard refers to.
      const reached = new Set<unknown>();
      const reach = (value: unknown): void => {
        if (
          (typeof value !== 'object' && typeof value !== 'function') ||
          value === null ||
          reached.has(value)
        )
          return;
        if (value === Object.prototype || value === Function.prototype) return;
        reached.add(value);
        for (const key of Reflect.ownKeys(value)) {
          const descriptor = Reflect.getOwnPropertyDescriptor(value, key);
          reach(descriptor?.value);
        }
        reach(Reflect.getPrototypeOf(value));
      };
      for (const value of own) reach(value);
      for (const value of reached) {
        expect(ArrayBuffer.isView(value)).toBe(false);
        expect(typeof value).toBe('object');
      }
      guard.release();
    });
  });
};
