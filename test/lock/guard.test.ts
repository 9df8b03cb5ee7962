import { expect, it } from 'vitest';
import { byteLengthFor } from '../../unbundled/engine/contract/layout.js';
import { QUEUED } from '../../unbundled/engine/contract/lock-word.js';
import { EXCLUSIVE_MODE, SHARED_MODE, type Mode } from '../../unbundled/engine/contract/mode.js';
import type { LockTable } from '../../unbundled/engine/contract/engine.js';
import { FastPath } from '../../unbundled/engine/fast-path.js';
import { createGuardOfSet, tryTake, type Guard } from '../../unbundled/lock/guard.js';
import { turns } from '../support/waiting.js';

const STRIPES = 4;
const SLOT = 1;
const overflow = new RangeError('Maximum call stack size exceeded');

/** A table whose words all say that somebody waits, once the guard has them; and whose releases fail at one stripe. */
function setUp(mode: Mode, failsAt: number): { guard: Guard; released: number[]; repair: () => void } {
  const released: number[] = [];
  let fails = true;
  const words = new Int32Array(new SharedArrayBuffer(byteLengthFor(STRIPES)));
  const table = {
    words,
    compareExchange: undefined,
    firstAddress: 0,
    slot: SLOT,
    limit: 1,
    shares: new Int32Array(STRIPES),
    release(stripe: number) {
      if (fails && stripe === failsAt) throw overflow;
      released.push(stripe);
    },
  } as unknown as LockTable;
  const keys = ['a', 'b', 'c'];
  const guard = createGuardOfSet(new FastPath(table), { keys, stripes: [0, 1, 2] }, mode);
  expect(tryTake(guard)).toBe(true);
  for (let i = 0; i < words.length; i++) words[i]! |= QUEUED;
  return { guard, released, repair: () => void (fails = false) };
}

it.each([EXCLUSIVE_MODE, SHARED_MODE])(
  'a release that overflows before the first stripe changes nothing, and can be called again',
  async (mode) => {
    const { guard, released, repair } = setUp(mode, 2);
    expect(() => guard.release()).toThrow(overflow);
    await turns();
    expect([guard.held, released]).toEqual([true, []]);
    repair();
    guard.release();
    expect([guard.held, released]).toEqual([false, [2, 1, 0]]);
  },
);

it.each([EXCLUSIVE_MODE, SHARED_MODE])(
  'a release that overflows between two stripes leaves a guard that holds nothing, and finishes by itself',
  async (mode) => {
    const { guard, released, repair } = setUp(mode, 1);
    expect(() => guard.release()).toThrow(overflow);
    expect([guard.held, released]).toEqual([false, [2]]);
    expect(() => guard.token).toThrow(expect.objectContaining({ code: 'ERR_LOCK_NOT_HELD' }) as Error);
    repair();
    await turns();
    expect(released).toEqual([2, 1, 0]);
    guard.release();
    expect([guard.held, released]).toEqual([false, [2, 1, 0]]);
  },
);

it('a release that overflowed between two stripes finishes at once if it is called again', async () => {
  const { guard, released, repair } = setUp(EXCLUSIVE_MODE, 0);
  expect(() => guard.release()).toThrow(overflow);
  expect([guard.held, released]).toEqual([false, [2, 1]]);
  repair();
  guard.release();
  expect(released).toEqual([2, 1, 0]);
  await turns();
  expect(released).toEqual([2, 1, 0]);
});
