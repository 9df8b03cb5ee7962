// "The query() method" and "Snapshot the lock state". For other threads see threads.test.ts.
import { threadId } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { rejectionOf } from '../support/waiting.js';
import { engines, hold } from './managers.js';

describe.each(engines)('query() on the $engine engine', ({ makeManager }) => {
  it('gives two empty lists if nothing is held', async () => {
    const state = await makeManager().query();
    expect(state).toEqual({ held: [], pending: [] });
    expect(Object.keys(state)).toEqual(['held', 'pending']);
    expect(Object.getPrototypeOf(state)).toBe(Object.prototype);
  });

  it('says of each request its name, its mode and its thread', async () => {
    const manager = makeManager();
    const held = await hold(manager, 'a');
    const pending = hold(manager, 'a', { mode: 'shared' });
    const clientId = `node-${process.pid}-${threadId}`;
    expect(await manager.query()).toEqual({
      held: [{ name: 'a', mode: 'exclusive', clientId }],
      pending: [{ name: 'a', mode: 'shared', clientId }],
    });
    held.release();
    (await pending).release();
  });

  it('lists the pending requests of a name in the order of their grants, and each holder once', async () => {
    const manager = makeManager();
    const readers = await Promise.all([1, 2].map(() => hold(manager, 'a', { mode: 'shared' })));
    const modes = ['exclusive', 'shared', 'shared', 'exclusive'] as const;
    const waiting = modes.map((mode) => hold(manager, 'a', { mode }));
    const other = await hold(manager, '\ud800');
    const { held, pending } = await manager.query();
    const ofA = held.filter(({ name }) => name === 'a').map(({ mode }) => mode);
    expect(ofA).toEqual(['shared', 'shared']);
    expect(held.map(({ name }) => name)).toContain('\ud800');
    expect(pending.map(({ name, mode }) => `${name} ${mode}`)).toEqual(modes.map((mode) => `a ${mode}`));
    other.release();
    for (const reader of readers) reader.release();
    for (const each of waiting) {
      const later = await each;
      later.release();
      await later.ended;
    }
    expect(await manager.query()).toEqual({ held: [], pending: [] });
  });

  it('shows what is at the call, not what is when its promise is awaited', async () => {
    const manager = makeManager();
    const held = await hold(manager, 'a');
    const before = manager.query();
    held.release();
    await held.ended;
    expect((await before).held).toHaveLength(1);
    expect((await manager.query()).held).toHaveLength(0);
  });

  it('shows a deadlock, which is not refused', async () => {
    const manager = makeManager();
    const [a, b] = await Promise.all([hold(manager, 'a'), hold(manager, 'b')]);
    const waiting = [hold(manager, 'b'), hold(manager, 'a')];
    const { held, pending } = await manager.query();
    expect([held, pending].map((infos) => infos.map(({ name }) => name).toSorted())).toEqual([
      ['a', 'b'],
      ['a', 'b'],
    ]);
    a.release();
    b.release();
    for (const each of waiting) (await each).release();
  });

  it('rejects with a TypeError on a value that is not a manager', async () => {
    const query = Reflect.get(makeManager(), 'query') as () => Promise<unknown>;
    expect(await rejectionOf(Reflect.apply(query, {}, []))).toBeInstanceOf(TypeError);
  });
});
