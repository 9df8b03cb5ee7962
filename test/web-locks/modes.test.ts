// "Modes and Scheduling", "Lock Requests", "Process a lock request queue" and the option ifAvailable.
import { describe, expect, it } from 'vitest';
import { rejectionOf, turns, watch } from '../support/waiting.js';
import { engines, hold, stateOf } from './managers.js';

const SHARED = { mode: 'shared' } as const;
const IF_AVAILABLE = { ifAvailable: true } as const;

describe.each(engines)('the queue of a name on the $engine engine', ({ makeManager }) => {
  const manager = makeManager();

  it('serves exclusive requests in order, one at a time', async () => {
    const log: string[] = [];
    const all = [1, 2, 3].map((n) =>
      manager.request('a', async () => {
        log.push(`begin ${n}`);
        await turns();
        log.push(`end ${n}`);
      }),
    );
    await Promise.all(all);
    expect(log).toEqual(['begin 1', 'end 1', 'begin 2', 'end 2', 'begin 3', 'end 3']);
  });

  it('serves another name while a name is held', async () => {
    const held = await hold(manager, 'a');
    const waits = watch(manager.request('a', () => 'a'));
    expect(await manager.request('b', () => 'b')).toBe('b');
    expect(waits.state).toBe('pending');
    held.release();
    expect(await waits.promise).toBe('a');
  });

  it('lets shared requests in together, and an exclusive one in alone', async () => {
    const readers = await Promise.all([hold(manager, 'a', SHARED), hold(manager, 'a', SHARED)]);
    const writer = hold(manager, 'a');
    expect(await stateOf(manager, 'a')).toEqual({ held: ['shared', 'shared'], pending: ['exclusive'] });
    readers[0].release();
    await readers[0].ended;
    expect(await stateOf(manager, 'a')).toEqual({ held: ['shared'], pending: ['exclusive'] });
    readers[1].release();
    (await writer).release();
  });

  it('lets no shared request pass an exclusive one', async () => {
    const first = await hold(manager, 'a', SHARED);
    const writer = hold(manager, 'a');
    const behind = [1, 2, 3].map(() => hold(manager, 'a', SHARED));
    await turns();
    expect(await stateOf(manager, 'a')).toEqual({
      held: ['shared'],
      pending: ['exclusive', 'shared', 'shared', 'shared'],
    });
    first.release();
    const written = await writer;
    expect(await stateOf(manager, 'a')).toEqual({
      held: ['exclusive'],
      pending: ['shared', 'shared', 'shared'],
    });
    written.release();
    const readers = await Promise.all(behind);
    expect(await stateOf(manager, 'a')).toEqual({ held: ['shared', 'shared', 'shared'], pending: [] });
    for (const reader of readers) reader.release();
  });

  it('does not let its holder in again', async () => {
    const inner = await manager.request('a', () => manager.request('a', IF_AVAILABLE, (lock) => lock));
    expect(inner).toBe(null);
  });
});

describe.each(engines)('ifAvailable on the $engine engine', ({ makeManager }) => {
  const manager = makeManager();

  it.each([
    ['nobody', 'exclusive', undefined, true],
    ['nobody', 'shared', undefined, true],
    ['a shared holder', 'shared', 'shared', true],
    ['a shared holder', 'exclusive', 'shared', false],
    ['an exclusive holder', 'shared', 'exclusive', false],
    ['an exclusive holder', 'exclusive', 'exclusive', false],
  ] as const)('with %s: %s', async (_who, mode, heldMode, granted) => {
    const held = heldMode && (await hold(manager, 'a', { mode: heldMode }));
    const lock = await manager.request('a', { mode, ifAvailable: true }, (got) => got);
    if (granted) expect(lock).toMatchObject({ name: 'a', mode });
    else expect(lock).toBe(null);
    held?.release();
    await held?.ended;
    expect(await stateOf(manager, 'a')).toEqual({ held: [], pending: [] });
  });

  it('is refused to a shared request behind an exclusive one that waits', async () => {
    const reader = await hold(manager, 'a', SHARED);
    const writer = hold(manager, 'a');
    expect(await manager.request('a', { ...SHARED, ...IF_AVAILABLE }, (lock) => lock)).toBe(null);
    reader.release();
    (await writer).release();
  });

  it('calls back later, and gives what the callback returns or throws', async () => {
    const held = await hold(manager, 'a');
    const calls: unknown[] = [];
    const promise = manager.request('a', IF_AVAILABLE, async (lock) => {
      calls.push(lock);
      return 123;
    });
    expect(calls).toEqual([]);
    expect(await promise).toBe(123);
    expect(calls).toEqual([null]);
    const error = { name: 'test' };
    const throwing = [
      () => {
        throw error;
      },
      async () => {
        throw error;
      },
    ];
    for (const callback of throwing) {
      expect(await rejectionOf(manager.request('a', IF_AVAILABLE, callback))).toBe(error);
    }
    expect(await stateOf(manager, 'a')).toEqual({ held: ['exclusive'], pending: [] });
    held.release();
  });

  it('gets the lock once an earlier release is done, with or without a request that waited', async () => {
    await manager.request('a', () => undefined);
    expect(await manager.request('a', IF_AVAILABLE, (lock) => lock?.name)).toBe('a');
    await Promise.all([manager.request('a', () => 1), manager.request('a', () => 2)]);
    expect(await manager.request('a', IF_AVAILABLE, (lock) => lock?.name)).toBe('a');
  });
});
