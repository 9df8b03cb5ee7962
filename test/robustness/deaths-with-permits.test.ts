import { describe, expect, it } from 'vitest';
import { KeyedLock, type Guard, type LockKey, type StripedLock } from 'stripelock';
import { ENDS, Victim, type VictimPlan } from '../support/victim.js';
import { turns, until, watch } from '../support/waiting.js';

const LIMIT = 3;

function newLock(): KeyedLock {
  return new KeyedLock({ engine: 'native', limit: LIMIT, timeout: Infinity, name: 'mortal permits' });
}

function victimOf(lock: KeyedLock, plan: VictimPlan): Promise<Victim> {
  return Victim.start(lock as unknown as StripedLock, plan);
}

/** All free permits of a key, and whether each new holder saw a death. */
function takeRest(lock: KeyedLock, key: LockKey): Guard[] {
  const guards: Guard[] = [];
  for (let guard; (guard = lock.tryAcquire(key)) !== undefined;) guards.push(guard);
  return guards;
}

/** No permit is lost, none was given back twice, and new holders no longer see a death. */
function expectWhole(lock: KeyedLock, keys: readonly LockKey[]): void {
  expect(lock.inspect()).toEqual([]);
  expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0, deadlocks: 0 });
  for (const key of keys) {
    const guards = takeRest(lock, key);
    expect(guards.map(({ abandoned }) => abandoned)).toEqual([false, false, false]);
    for (const guard of guards) guard.release();
  }
  expect(lock.size).toBe(0);
}

/** The number of permits of a key, by thread. */
function holdersOf(lock: KeyedLock, key: LockKey): number[] {
  const state = lock.inspect().find((one) => one.key === key);
  return (state?.holders ?? []).map(({ threadId }) => threadId).sort((a, b) => a - b);
}

describe('a thread that has permits of several keys when it ends', () => {
  for (const end of ENDS) {
    it(`(${end}) gives them back once, and later holders see the death`, async () => {
      const lock = newLock();
      const ours = [lock.acquireSync(['one', 'two']), lock.acquireSync('two')];
      const victim = await victimOf(lock, {
        // One of `two`, two of `one`, all of `three`.
        holds: [
          { keys: ['one', 'two', 'three'] },
          { keys: ['three', 'one'], how: 'async' },
          { keys: 'three', how: 'async' },
        ],
      });
      const { threadId } = victim;
      expect(holdersOf(lock, 'one')).toEqual([0, threadId, threadId]);
      expect(holdersOf(lock, 'two')).toEqual([0, 0, threadId]);
      expect(holdersOf(lock, 'three')).toEqual([threadId, threadId, threadId]);
      expect(lock.stats()).toMatchObject({ held: 3, abandoned: 0 });
      for (const key of ['one', 'two', 'three']) expect(lock.tryAcquire(key)).toBeUndefined();

      await victim.end(end);
      expect(lock.stats()).toMatchObject({ held: 2, waiting: 0, abandoned: 3 });
      expect(holdersOf(lock, 'one')).toEqual([0]);
      expect(holdersOf(lock, 'two')).toEqual([0, 0]);
      expect(holdersOf(lock, 'three')).toEqual([]);
      // Earlier holders do not see the death.
      expect(ours.map(({ abandoned }) => abandoned)).toEqual([false, false]);

      const rest = ['one', 'two', 'three'].map((key) => takeRest(lock, key));
      expect(rest.map((guards) => guards.map(({ abandoned }) => abandoned))).toEqual([
        [true, true],
        [true],
        [true, true, true],
      ]);
      for (const guard of [...ours, ...rest.flat()]) guard.release();
      expectWhole(lock, ['one', 'two', 'three']);
      expect(lock.stats().abandoned).toBe(3);
    });
  }
});

describe('a thread that waits for permits when it ends', () => {
  for (const [way, ends] of [
    ['parked', ['terminate']],
    ['pending', ENDS.filter((end) => end !== 'return')],
  ] as const) {
    it(`(${way}) gives back those it had taken, and the waiters behind it are granted theirs`, async () => {
      for (const end of ends) {
        const lock = newLock();
        const full = [1, 2, 3].map(() => lock.acquireSync('full'));
        const some = [1, 2].map(() => lock.acquireSync('some'));
        const want = { keys: ['some', 'full'] };
        const victim = await victimOf(lock, {
          holds: [{ keys: 'held' }],
          ...(way === 'parked' ? { parked: want } : { pending: [want] }),
        });
        await until(() => lock.stats().waiting === 1, 'it waits');
        const state = lock.inspect().find(({ waiters }) => waiters.length > 0)!;
        expect(state.waiters).toMatchObject([{ threadId: victim.threadId, mode: 'exclusive' }]);
        const behind = { some: watch(lock.acquire('some')), full: watch(lock.acquire('full')) };
        await turns();
        expect(behind.full.state).toBe('pending');
        await victim.end(end);
        // Whichever of the two keys comes first: what it had of it for an acquisition that never ended comes back.
        expect((await behind.some.promise).abandoned).toBe(false);
        expect(behind.full.state).toBe('pending');
        expect(lock.tryAcquire('some')).toBeUndefined();
        expect(lock.tryAcquire('full')).toBeUndefined();
        expect(lock.stats()).toMatchObject({ held: 2, waiting: 1, abandoned: 1 });
        expect(lock.inspect().flatMap(({ holders }) => holders)).not.toContainEqual({
          threadId: victim.threadId,
        });
        full.pop()!.release();
        expect((await behind.full.promise).abandoned).toBe(false);
        const held = lock.acquireSync('held');
        expect(held.abandoned).toBe(true);
        for (const guard of [...full, ...some, held]) guard.release();
        (await behind.some.promise).release();
        (await behind.full.promise).release();
        expectWhole(lock, ['some', 'full', 'held']);
      }
    });
  }
});
