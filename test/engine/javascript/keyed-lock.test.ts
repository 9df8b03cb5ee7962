// A KeyedLock on the JavaScript engine works only in the thread that created it.
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { KeyedLock, type LockKey } from 'stripelock';
import { runProgram } from '../../support/programs.js';
import { runThread } from '../../support/threads.js';

/** Milliseconds: many times what the programs take on a busy machine. They hang, or end. */
const HANGS = 120_000;

describe('a KeyedLock on the JavaScript engine', () => {
  it.each([1, 2])(
    'is refused in another thread, with the way to the native engine (limit %i)',
    async (limit) => {
      const lock = new KeyedLock({ engine: 'javascript', limit });
      const guard = lock.acquireSync('key');
      const opened = await runThread('open-keyed.mjs', { handle: lock.handle });
      expect(opened).toEqual({
        name: 'LockError',
        code: 'ERR_LOCK_ENGINE',
        message: expect.stringMatching(
          /KeyedLock.*only in the thread that created it.*native engine/,
        ) as string,
      });
      guard.release();
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    },
  );

  it('opens again in its own thread, by its handle or a copy of it, even if the lock has no other user', () => {
    const { handle } = new KeyedLock({ engine: 'javascript' });
    const guards = [handle, structuredClone(handle)].map((each) => KeyedLock.from(each).tryAcquire('key'));
    expect(guards.map((guard) => guard?.held)).toEqual([true, undefined]);
    guards[0]!.release();
  });

  it.each<[string, (i: number) => LockKey | LockKey[]]>([
    ['a string', (i) => `new ${i}`],
    ['bytes', (i) => Buffer.from(`new ${i}`)],
    ['a list', (i) => [`one ${i}`, `two ${i}`, Buffer.from(`three ${i}`)]],
  ])('checks no more stripes for %s if nearly all of its capacity is held', (_, keysOf) => {
    const load = Atomics.load.bind(Atomics);
    const spy = vi.spyOn(Atomics, 'load');
    onTestFinished(() => spy.mockRestore());
    for (const capacity of [64, 16_384]) {
      const lock = new KeyedLock({ engine: 'javascript', capacity });
      for (let held = 0; held < capacity - 3; held++) lock.acquireSync(held);
      // The first ones are remembered, until no room is left for another key.
      for (let i = 0; i < 10; i++) lock.acquireSync(keysOf(-1 - i)).release();
      let loads = 0;
      spy.mockImplementation((...of: Parameters<typeof load>) => (loads++, load(...of)));
      for (let i = 0; i < 100; i++) lock.acquireSync(keysOf(i)).release();
      spy.mockReset();
      // A new key checks a few keys that came before it, and none that stays held.
      expect(loads, `capacity ${capacity}`).toBeLessThan(4000);
    }
  });

  for (const [how, found] of [
    ['terminated', { openings: ['ERR_LOCK_ENGINE'], held: 0 }],
    ['cut', { cuts: 20 }],
  ] as const) {
    const what = how === 'cut' ? 'a vm timeout cuts scripts off' : 'threads are terminated';
    it(`serves its thread while ${what} that use it`, { timeout: HANGS + 10_000 }, async () => {
      const { code, signal, stdout, stderr } = await runProgram('keyed-javascript.mjs', [how], [], HANGS);
      expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' });
      expect(JSON.parse(stdout)).toEqual(found);
    });
  }
});
