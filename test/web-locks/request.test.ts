// "Request a lock", "Release a lock" and "Locks": when callbacks are called, how long a lock is held, what promises give.
import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from 'vitest';
import { rejectionOf, turns, watch } from '../support/waiting.js';
import { engines, hold, stateOf, withResolvers } from './managers.js';

const FREE = { held: [], pending: [] };

describe.each(engines)('a request on the $engine engine', ({ makeManager }) => {
  const manager = makeManager();

  it('gives a native promise of what the callback returns', async () => {
    const promise = manager.request('a', () => 123);
    expect(Promise.resolve(promise)).toBe(promise);
    expect(await promise).toBe(123);
    expect(await manager.request('a', async () => 'later')).toBe('later');
    const object = { own: 1 };
    expect(await manager.request('a', () => object)).toBe(object);
    expect(await manager.request('a', () => null)).toBe(null);
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });

  it('calls the callback later, once, with the lock alone and no receiver', async () => {
    const calls: unknown[] = [];
    const promise = manager.request('a', function (this: unknown, ...args: unknown[]) {
      calls.push(this, args.length, String(args[0]));
    });
    expect(calls).toEqual([]);
    await promise;
    expect(calls).toEqual([undefined, 1, '[object Lock]']);
  });

  it('calls callbacks of free locks in the order of their requests, before the event loop turns', async () => {
    const order: number[] = [];
    const all = [1, 2, 3].map((n) => manager.request(`free ${n}`, () => void order.push(n)));
    setImmediate(() => order.push(4));
    await Promise.all(all);
    expect(order).toEqual([1, 2, 3]);
  });

  it('shows a granted request as held and another as pending in the same tick', async () => {
    const first = manager.request('a', () => 1);
    const second = manager.request('a', { mode: 'shared' }, () => 2);
    const state = stateOf(manager, 'a');
    expect(await Promise.all([first, second])).toEqual([1, 2]);
    expect(await state).toEqual({ held: ['exclusive'], pending: ['shared'] });
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });

  it('frees the lock if the callback throws', async () => {
    const error = { name: 'test' };
    const throwing = manager.request('a', () => {
      throw error;
    });
    const next = manager.request('a', () => 'next');
    expect(await rejectionOf(throwing)).toBe(error);
    expect(await next).toBe('next');
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });

  it('frees the lock if the promise of the callback rejects', async () => {
    const held = await hold(manager, 'a');
    const next = watch(manager.request('a', () => 'next'));
    const error = new Error('test');
    await turns();
    expect(next.state).toBe('pending');
    held.fail(error);
    expect(await rejectionOf(held.ended)).toBe(error);
    expect(await next.promise).toBe('next');
  });

  it('does not call the then of what a callback throws', async () => {
    let called = false;
    const error = { then: () => (called = true) };
    for (const callback of [
      () => {
        throw error;
      },
      async () => {
        throw error;
      },
    ]) {
      // An async function that returned the error would call its then.
      const reason = await manager.request('a', callback).catch((caught: unknown) => ({ caught }));
      expect(reason.caught).toBe(error);
    }
    expect(called).toBe(false);
  });

  it('holds the lock until a thenable settles', async () => {
    const { promise: granted, resolve: grant } = withResolvers<undefined>();
    let settle!: (value: string) => void;
    const thenable = {
      then(resolve: (value: string) => void) {
        settle = resolve;
        grant(undefined);
      },
    };
    const ended = watch(manager.request('a', () => thenable as unknown as Promise<string>));
    await granted;
    await turns();
    expect(await stateOf(manager, 'a')).toEqual({ held: ['exclusive'], pending: [] });
    expect(ended.state).toBe('pending');
    settle('settled');
    expect(await ended.promise).toBe('settled');
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });

  it('frees the lock if a thenable throws, or has a then that cannot be read', async () => {
    const error = new Error('test');
    const throwing = {
      then() {
        throw error;
      },
    };
    const unreadable = Object.defineProperty({}, 'then', {
      get() {
        throw error;
      },
    });
    // A promise whose then somebody has replaced.
    const replaced = Object.assign(Promise.resolve(), throwing);
    const odd = Object.defineProperty(Promise.resolve(), 'constructor', {
      get() {
        throw error;
      },
    });
    for (const result of [throwing, unreadable, replaced, odd]) {
      expect(await rejectionOf(manager.request('a', () => result as unknown))).toBe(error);
      expect(await stateOf(manager, 'a')).toEqual(FREE);
    }
  });

  it('settles once, however often a thenable calls back', async () => {
    const thenable = {
      then(resolve: (value: number) => void, reject: (reason: unknown) => void) {
        resolve(1);
        resolve(2);
        reject(new Error('test'));
      },
    };
    expect(await manager.request('a', () => thenable as unknown as Promise<number>)).toBe(1);
    const promise = Object.assign(Promise.resolve(3), {
      then(resolve: (value: number) => void, reject: (reason: unknown) => void) {
        resolve(4);
        resolve(5);
        reject(new Error('test'));
      },
    });
    expect(await manager.request('a', () => promise)).toBe(4);
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });

  it('grants the next request before its own promise settles', async () => {
    const held = await hold(manager, 'a');
    const next = hold(manager, 'a');
    const seen = held.ended.then(() => stateOf(manager, 'a'));
    held.release();
    expect(await seen).toEqual({ held: ['exclusive'], pending: [] });
    (await next).release();
    const sync = manager.request('a', () => 1).then(() => stateOf(manager, 'a'));
    const second = hold(manager, 'a');
    expect(await sync).toEqual({ held: ['exclusive'], pending: [] });
    (await second).release();
  });

  it('settles the promise after what the callback waited for', async () => {
    const order: string[] = [];
    const { promise, resolve } = withResolvers<undefined>();
    const ended = manager.request('a', () => promise).then(() => order.push('returned'));
    const held = promise.then(() => order.push('holding'));
    resolve(undefined);
    await Promise.all([ended, held]);
    expect(order).toEqual(['holding', 'returned']);
  });

  it('keeps the AsyncLocalStorage of each request in its callback, whether it waits or not', async () => {
    const storage = new AsyncLocalStorage<number>();
    const seen: unknown[] = [];
    const note = async (): Promise<void> => {
      seen.push(storage.getStore());
      await Promise.resolve();
      seen.push(storage.getStore());
    };
    const requests = [1, 2, 3].map((n) => storage.run(n, () => manager.request('a', note)));
    await storage.run(4, () => Promise.all(requests));
    expect(seen).toEqual([1, 1, 2, 2, 3, 3]);
    const refused = storage.run(5, () =>
      manager.request('a', () => manager.request('a', { ifAvailable: true }, () => storage.getStore())),
    );
    expect(await refused).toBe(5);
  });

  it('shows a callback that its lock is held, from the first statement to the last', async () => {
    const states = await manager.request('a', async () => {
      const first = await stateOf(manager, 'a');
      await turns();
      return [first, await stateOf(manager, 'a')];
    });
    expect(states).toEqual([
      { held: ['exclusive'], pending: [] },
      { held: ['exclusive'], pending: [] },
    ]);
  });
});
