// The option steal, within one thread. For other threads see threads.test.ts.
import { describe, expect, it } from 'vitest';
import { rejectionOf, turns, watch } from '../support/waiting.js';
import { engines, hold, stateOf } from './managers.js';

const STEAL = { steal: true } as const;
const ABORTED = { name: 'AbortError' };
const FREE = { held: [], pending: [] };

describe.each(engines)('steal on the $engine engine', ({ makeManager }) => {
  const manager = makeManager();

  it('takes a free lock', async () => {
    expect(await manager.request('a', STEAL, (lock) => lock?.mode)).toBe('exclusive');
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });

  it('takes the lock from its holder, whose promise rejects with an AbortError', async () => {
    const victim = await hold(manager, 'a');
    expect(await manager.request('a', STEAL, () => 'stolen')).toBe('stolen');
    const error = await rejectionOf(victim.ended);
    expect(error).toBeInstanceOf(DOMException);
    expect(error).toMatchObject(ABORTED);
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });

  it('takes the lock from all shared holders', async () => {
    const victims = await Promise.all([1, 2, 3].map(() => hold(manager, 'a', { mode: 'shared' })));
    const thief = await hold(manager, 'a', STEAL);
    for (const { ended } of victims) expect(await rejectionOf(ended)).toMatchObject(ABORTED);
    expect(await stateOf(manager, 'a')).toEqual({ held: ['exclusive'], pending: [] });
    thief.release();
  });

  it('passes those that wait, which stay in the queue', async () => {
    const victim = await hold(manager, 'a');
    const waits = watch(manager.request('a', () => 'waited'));
    const thief = await hold(manager, 'a', STEAL);
    expect(await rejectionOf(victim.ended)).toMatchObject(ABORTED);
    await turns();
    expect(waits.state).toBe('pending');
    thief.release();
    expect(await waits.promise).toBe('waited');
  });

  it('leaves the lock to the last one that steals it', async () => {
    const victim = await hold(manager, 'a');
    const first = await hold(manager, 'a', STEAL);
    expect(await manager.request('a', STEAL, () => 'last')).toBe('last');
    expect(await rejectionOf(victim.ended)).toMatchObject(ABORTED);
    expect(await rejectionOf(first.ended)).toMatchObject(ABORTED);
  });

  it.each(['release', 'fail'] as const)(
    'makes a late %s of the victim affect no other holder',
    async (way) => {
      const victim = await hold(manager, 'a');
      const thief = await hold<string>(manager, 'a', STEAL);
      const next = hold(manager, 'a');
      await rejectionOf(victim.ended);
      victim[way](new Error('late'));
      await turns();
      expect(await stateOf(manager, 'a')).toEqual({ held: ['exclusive'], pending: ['exclusive'] });
      thief.release('kept');
      expect(await thief.ended).toBe('kept');
      const later = await next;
      expect(await stateOf(manager, 'a')).toEqual({ held: ['exclusive'], pending: [] });
      later.release();
    },
  );

  it('rejects the victim even if its callback ends in the same tick', async () => {
    const victim = await hold(manager, 'a');
    victim.release();
    const thief = manager.request('a', STEAL, () => 'stolen');
    expect(await rejectionOf(victim.ended)).toMatchObject(ABORTED);
    expect(await thief).toBe('stolen');
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });

  it('lets the callback of a victim run that had not run yet, and rejects its promise', async () => {
    const log: string[] = [];
    for (const result of [undefined, Promise.resolve(), Promise.reject(new Error('nobody hears this'))]) {
      log.length = 0;
      const victim = manager.request('a', (lock) => {
        log.push(`victim ${String(lock?.mode)}`);
        return result;
      });
      const thief = manager.request('a', STEAL, () => void log.push('thief'));
      expect(await rejectionOf(victim)).toMatchObject(ABORTED);
      await thief;
      expect(log).toEqual(['victim exclusive', 'thief']);
    }
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });

  it('lets a victim run that had waited, and was granted but not called yet', async () => {
    const log: string[] = [];
    const held = await hold(manager, 'a');
    const victim = watch(manager.request('a', () => log.push('victim')));
    const stolen = held.ended.then(() => manager.request('a', STEAL, () => log.push('thief')));
    held.release();
    await stolen;
    expect(await rejectionOf(victim.promise)).toMatchObject(ABORTED);
    expect(log.toSorted()).toEqual(['thief', 'victim']);
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });

  it('from within the callback of the victim rejects the victim', async () => {
    let thief: Promise<string> | undefined;
    const victim = manager.request('a', () => {
      thief = manager.request('a', STEAL, () => 'stolen');
      return 'kept';
    });
    expect(await rejectionOf(victim)).toMatchObject(ABORTED);
    expect(await thief).toBe('stolen');
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });

  it('rejects a victim whose callback never ends', async () => {
    const victim = manager.request('a', () => new Promise(() => undefined));
    victim.catch(() => undefined);
    await turns();
    await manager.request('a', STEAL, () => undefined);
    expect(await rejectionOf(victim)).toMatchObject(ABORTED);
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });
});
