import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from 'vitest';
import type { Guard } from 'stripelock';
import type { Suite } from '../support/engine.js';
import { rejectionOf, thrownBy, turns, watch } from '../support/waiting.js';

type Settle = (value: unknown) => void;

/** A thenable that is not a promise. */
function thenable(then: (resolve: Settle, reject: Settle) => void): PromiseLike<unknown> {
  return { then } as PromiseLike<unknown>;
}

/** An object whose `then` getter throws. */
function throwingGetter(error: Error): PromiseLike<unknown> {
  const get = (): never => {
    throw error;
  };
  return Object.defineProperty({}, 'then', { get }) as PromiseLike<unknown>;
}

export const withLockSuite: Suite = (makeLock) => {
  describe('withLock', () => {
    it('holds the keys while its function runs, sync or async, and passes on its result', async () => {
      const lock = makeLock();
      const seen: Guard[] = [];
      const sync = await lock.withLock('key', (guard) => {
        seen.push(guard);
        expect(guard).toMatchObject({ held: true, keys: ['key'], mode: 'exclusive' });
        expect(lock.tryAcquire('key')).toBeUndefined();
        return 'sync';
      });
      const later = await lock.withLock(['key', 5], { mode: 'shared', timeout: 10 }, async (guard) => {
        seen.push(guard);
        expect(guard).toMatchObject({ held: true, keys: ['key', 5], mode: 'shared' });
        await turns();
        expect(lock.tryAcquire('key')).toBeUndefined();
        return 'later';
      });
      expect([sync, later]).toEqual(['sync', 'later']);
      expect(seen.map((guard) => guard.held)).toEqual([false, false]);
      expect(lock.stats().held).toBe(0);
    });

    it('runs each function in the async context of its call, whichever call released the keys', async () => {
      const lock = makeLock();
      const context = new AsyncLocalStorage<string>();
      const section = async (): Promise<unknown> => {
        const before = context.getStore();
        await turns(1);
        return [before, context.getStore()];
      };
      const names = ['a', 'b', 'c'];
      const seen = await Promise.all(
        names.map((name) => context.run(name, () => lock.withLock('key', section))),
      );
      expect(seen).toEqual(names.map((name) => [name, name]));
    });

    it('acquires by the lock’s own acquire if a program has replaced that', async () => {
      const lock = makeLock();
      const acquire: typeof lock.acquire = lock.acquire.bind(lock);
      let calls = 0;
      lock.acquire = ((...args: Parameters<typeof acquire>) => {
        calls++;
        return acquire(...args);
      }) as typeof acquire;
      await Promise.all([1, 2].map((i) => lock.withLock('key', () => i)));
      expect(calls).toBe(2);
    });

    it('runs one function after the other, in order', async () => {
      const lock = makeLock();
      const order: string[] = [];
      const section = (name: string) => async (): Promise<void> => {
        order.push(`${name} in`);
        await turns(2);
        order.push(`${name} out`);
      };
      await Promise.all(['a', 'b', 'c'].map((name) => lock.withLock('key', section(name))));
      expect(order).toEqual(['a in', 'a out', 'b in', 'b out', 'c in', 'c out']);
    });

    it('releases when its function throws or rejects, whatever the value', async () => {
      const lock = makeLock();
      const reasons: unknown[] = [new Error('no'), 'text', undefined, null, 0];
      for (const reason of reasons) {
        const failing: (() => unknown)[] = [
          () => {
            throw reason;
          },
          () => Promise.reject(reason),
          async () => {
            await turns(1);
            throw reason;
          },
        ];
        for (const fn of failing) {
          expect(await rejectionOf(lock.withLock('key', fn))).toBe(reason);
          expect(lock.stats().held).toBe(0);
        }
      }
    });

    it('releases after thenables that throw, reject or fulfil, now or later', async () => {
      const lock = makeLock();
      const error = new Error('from then');
      const failing = [
        thenable(() => {
          throw error;
        }),
        throwingGetter(error),
        thenable((_resolve, reject) => reject(error)),
        thenable((_resolve, reject) => setImmediate(reject, error)),
      ];
      for (const result of failing) {
        expect(await rejectionOf(lock.withLock('key', () => result))).toBe(error);
        expect(lock.stats().held).toBe(0);
      }
      const fulfilled = thenable((resolve) => setImmediate(resolve, 7));
      expect(await lock.withLock('key', () => fulfilled)).toBe(7);
      expect(lock.stats().held).toBe(0);
    });

    it('works if its function releases the guard itself', async () => {
      const lock = makeLock();
      let taken: Guard | undefined;
      await lock.withLock('key', (guard) => {
        guard.release();
        taken = lock.tryAcquire('key');
      });
      expect(taken!.held).toBe(true);
      expect(lock.tryAcquire('key')).toBeUndefined();
      taken!.release();
    });

    it('rejects without calling its function when the keys are unavailable', async () => {
      const lock = makeLock();
      const holder = lock.acquireSync('key');
      let calls = 0;
      for (const timeout of [0, 5]) {
        const error = await rejectionOf(lock.withLock('key', { timeout }, () => calls++));
        expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', timeout });
      }
      holder.release();
      await turns();
      expect(calls).toBe(0);
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    });

    it('is shown by inspect() while its function never settles', async () => {
      const lock = makeLock();
      const running = watch(lock.withLock('key', () => new Promise(() => undefined)));
      await turns();
      expect(running.state).toBe('pending');
      expect(lock.inspect()).toMatchObject([{ stripe: lock.stripeOf('key'), mode: 'exclusive' }]);
    });
  });

  describe('withLock of a held key', () => {
    /** Holds the key, starts `wait`, and releases the key. Then `wait` has nothing more to do in this turn. */
    async function afterHolder<T>(lock: ReturnType<typeof makeLock>, wait: () => T): Promise<T> {
      const holder = lock.acquireSync('key');
      const waiting = wait();
      await turns(1);
      holder.release();
      return waiting;
    }

    it('calls its function neither within the call nor within the release, and once', async () => {
      const lock = makeLock();
      const order: string[] = [];
      const holder = lock.acquireSync('key');
      const all = ['a', 'b'].map((name) => lock.withLock('key', () => order.push(name)));
      order.push('called');
      holder.release();
      order.push('released');
      await Promise.all(all);
      await turns();
      expect(order).toEqual(['called', 'released', 'a', 'b']);
    });

    it('passes on the key and the reason if its function throws or rejects', async () => {
      const lock = makeLock();
      const reasons: unknown[] = [new Error('no'), undefined, 0];
      for (const reason of reasons) {
        const failing: (() => unknown)[] = [
          () => {
            throw reason;
          },
          () => Promise.reject(reason),
          () => thenable((_resolve, reject) => setImmediate(reject, reason)),
        ];
        for (const fn of failing) {
          const [failed, next] = await afterHolder(lock, () =>
            Promise.all([rejectionOf(lock.withLock('key', fn)), lock.withLock('key', () => 'next')]),
          );
          expect(failed).toBe(reason);
          expect(next).toBe('next');
          expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
        }
      }
    });

    it('passes on the key after results that are odd', async () => {
      const lock = makeLock();
      const error = new Error('from the getter');
      const oddPromise = Object.defineProperty(Promise.resolve(1), 'constructor', {
        get: () => {
          throw error;
        },
      });
      for (const result of [throwingGetter(error), oddPromise]) {
        const all = () =>
          Promise.all([
            rejectionOf(lock.withLock('key', () => result)),
            lock.withLock('key', () => thenable((resolve) => setImmediate(resolve, 7))),
            lock.withLock('key', (guard) => guard.held),
          ]);
        expect(await afterHolder(lock, all)).toEqual([error, 7, true]);
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
      }
    });

    it('holds the key until the result settles, and not longer', async () => {
      const lock = makeLock();
      let settle: ((value: unknown) => void) | undefined;
      const [first, second] = await afterHolder(lock, () => {
        const result = new Promise((resolve) => (settle = resolve));
        return [watch(lock.withLock('key', () => result)), watch(lock.withLock('key', () => 2))] as const;
      });
      await turns();
      expect([first.state, second.state]).toEqual(['pending', 'pending']);
      expect(lock.tryAcquire('key')).toBeUndefined();
      settle!(1);
      expect(await Promise.all([first.promise, second.promise])).toEqual([1, 2]);
      await lock.drained();
    });

    it('leaves the event loop its turns if functions release early and ask again at once', async () => {
      // Far more than run in a few turns. Without turns, the test would never end.
      const MOST = 1_000_000;
      const lock = makeLock();
      let done = false;
      const all: Promise<unknown>[] = [];
      const ask = (): void => {
        const section = (guard: Guard): void => {
          guard.release();
          if (!done && all.length < MOST) ask();
        };
        all.push(lock.withLock('key', section));
      };
      const holder = lock.acquireSync('key');
      for (let i = 0; i < 3; i++) ask();
      holder.release();
      await turns();
      done = true;
      expect(all.length).toBeLessThan(MOST);
      await Promise.all(all);
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    });

    it('runs its function in the async context of its call, if a guard of another context is released', async () => {
      const lock = makeLock();
      const context = new AsyncLocalStorage<string>();
      const release = context.run('holder', async () => {
        const guard = await lock.acquire('key');
        return () => context.run('releaser', () => guard.release());
      });
      const seen: unknown[] = [];
      const section = async (): Promise<void> => {
        seen.push(context.getStore());
        await turns(1);
        seen.push(context.getStore());
      };
      const free = await release;
      const all = ['a', 'b'].map((name) => context.run(name, () => lock.withLock('key', section)));
      const none = lock.withLock('key', section);
      free();
      await Promise.all([...all, none]);
      expect(seen).toEqual(['a', 'a', 'b', 'b', undefined, undefined]);
    });
  });

  describe('withLockSync', () => {
    it('holds the keys while its function runs, and passes on its result', () => {
      const lock = makeLock();
      const result = lock.withLockSync(['key', 'other'], { mode: 'shared', timeout: 0 }, (guard) => {
        expect(guard).toMatchObject({ held: true, mode: 'shared', keys: ['key', 'other'] });
        expect(lock.tryAcquire('key')).toBeUndefined();
        return { a: 1 };
      });
      expect(result).toEqual({ a: 1 });
      expect(lock.withLockSync('key', (guard) => guard.mode)).toBe('exclusive');
      expect(lock.stats().held).toBe(0);
    });

    it('releases when its function throws', () => {
      const lock = makeLock();
      for (const reason of [new Error('no'), undefined]) {
        const failing = (): never => {
          throw reason;
        };
        expect(thrownBy(() => lock.withLockSync('key', failing))).toBe(reason);
        expect(lock.stats().held).toBe(0);
      }
    });

    it('refuses, after releasing, a function that returns a promise or another thenable, and says that it did', () => {
      const lock = makeLock();
      const guards: Guard[] = [];
      for (const result of [Promise.resolve(1), thenable(() => undefined)]) {
        const fn = (guard: Guard): unknown => {
          guards.push(guard);
          return result;
        };
        expect(thrownBy(() => lock.withLockSync('key', fn))).toMatchObject({
          name: 'TypeError',
          code: 'ERR_INVALID_ARG_TYPE',
          message: expect.stringMatching(/^fn returned a promise.*use withLock$/) as unknown,
        });
        expect(lock.stats().held).toBe(0);
      }
      expect(guards.map((guard) => guard.held)).toEqual([false, false]);
    });

    it('releases if reading then throws', () => {
      const lock = makeLock();
      const error = new Error('from the getter');
      const result = throwingGetter(error);
      expect(thrownBy(() => lock.withLockSync('key', (): unknown => result))).toBe(error);
      expect(lock.stats().held).toBe(0);
    });
  });
};
