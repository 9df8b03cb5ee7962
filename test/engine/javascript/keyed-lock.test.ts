// A KeyedLock on the JavaScript engine is for the thread that made it.
import { describe, expect, it } from 'vitest';
import { KeyedLock } from 'stripelock';
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
        message: expect.stringMatching(/KeyedLock.*only in the thread that made it.*native engine/) as string,
      });
      guard.release();
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    },
  );

  it('opens again in its own thread, by its handle or a copy of that, also if nobody has the lock any more', () => {
    const { handle } = new KeyedLock({ engine: 'javascript' });
    const guards = [handle, structuredClone(handle)].map((each) => KeyedLock.from(each).tryAcquire('key'));
    expect(guards.map((guard) => guard?.held)).toEqual([true, undefined]);
    guards[0]!.release();
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
