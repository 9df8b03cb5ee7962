// The interfaces Lock and LockManager as Web IDL defines them, and separate managers.
import { describe, expect, it } from 'vitest';
import { Lock, LockManager, locks } from 'stripelock/web-locks';
import { thrownBy } from '../support/waiting.js';
import { hold, stateOf } from './managers.js';

describe('Lock', () => {
  it('cannot be constructed', () => {
    for (const args of [[], ['a', 'exclusive'], [Symbol('key'), 'a', 'exclusive']]) {
      expect(thrownBy(() => Reflect.construct(Lock, args))).toBeInstanceOf(TypeError);
    }
    expect(Lock).toHaveLength(0);
  });

  it('has a name and a mode that cannot be changed, and nothing else', async () => {
    await locks.request('a name', { mode: 'shared' }, (lock) => {
      expect(lock).toBeInstanceOf(Lock);
      expect([lock!.name, lock!.mode]).toEqual(['a name', 'shared']);
      expect(Object.prototype.toString.call(lock)).toBe('[object Lock]');
      expect(Reflect.ownKeys(lock!)).toEqual([]);
      expect(Reflect.set(lock!, 'name', 'other')).toBe(false);
      expect(lock!.name).toBe('a name');
    });
    for (const member of ['name', 'mode']) {
      const own = Object.getOwnPropertyDescriptor(Lock.prototype, member);
      expect(own).toMatchObject({ enumerable: true, set: undefined });
      expect(thrownBy(() => Reflect.get(Lock.prototype, member, {}))).toBeInstanceOf(TypeError);
    }
  });

  it('is a new one for each request, and stays as it was afterwards', async () => {
    const [one, two] = await Promise.all([1, 2].map(() => locks.request('a', (lock) => lock!)));
    expect(one).not.toBe(two);
    expect(one!.name).toBe('a');
  });
});

describe('LockManager', () => {
  it('has methods that are enumerable, with the lengths of the standard', () => {
    expect(locks).toBeInstanceOf(LockManager);
    expect(Object.prototype.toString.call(locks)).toBe('[object LockManager]');
    for (const [member, length] of [
      ['request', 2],
      ['query', 0],
    ] as const) {
      const own = Object.getOwnPropertyDescriptor(LockManager.prototype, member);
      expect(own).toMatchObject({ enumerable: true });
      expect(own!.value).toHaveLength(length);
    }
    expect(LockManager).toHaveLength(0);
    expect(Reflect.ownKeys(locks)).toEqual([]);
  });

  it('has separate names', async () => {
    const [one, other] = [new LockManager(), new LockManager({ name: 'other' })];
    const held = await hold(one, 'a');
    for (const manager of [other, locks]) {
      expect(await manager.request('a', { ifAvailable: true }, (lock) => lock?.name)).toBe('a');
      expect(await stateOf(manager, 'a')).toEqual({ held: [], pending: [] });
    }
    held.release();
  });

  it('is the same one again by its handle, in the same thread too', async () => {
    for (const manager of [locks, new LockManager({ name: 'named' })]) {
      const handle = structuredClone(manager.handle);
      const again = LockManager.from(handle);
      const held = await hold(manager, 'a');
      expect(await again.request('a', { ifAvailable: true }, (lock) => lock)).toBe(null);
      expect(again.handle).toEqual(manager.handle);
      held.release();
      await held.ended;
    }
  });

  it('refuses wrong options and handles', () => {
    const make = (options: unknown) => (): unknown => Reflect.construct(LockManager, [options]);
    for (const options of [null, 5, 'text', [], { name: 5 }]) {
      expect(thrownBy(make(options))).toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
    }
    const handle = new LockManager().handle;
    for (const wrong of [undefined, null, 5, {}, { ...handle, kind: 'other' }, { ...handle, id: 5 }]) {
      expect(thrownBy(() => LockManager.from(wrong as object))).toBeInstanceOf(TypeError);
    }
    for (const number of ['1', undefined]) {
      expect(thrownBy(() => LockManager.from({ ...handle, number } as object))).toBeInstanceOf(TypeError);
    }
    for (const number of [-1, 0.5, NaN, 2 ** 53]) {
      expect(thrownBy(() => LockManager.from({ ...handle, number } as object))).toBeInstanceOf(RangeError);
    }
    for (const other of [{ id: [1, 2] }, { engine: 'javascript' }, { number: 2 ** 40 }]) {
      expect(thrownBy(() => LockManager.from({ ...handle, ...other }))).toMatchObject({
        code: 'ERR_LOCK_ENGINE',
      });
    }
    expect(thrownBy(() => LockManager.from({ ...handle, name: 5 } as object))).toBeInstanceOf(TypeError);
  });
});
