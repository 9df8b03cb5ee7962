// What threads of the JavaScript engine leave of permits that were terminated while they held some, or waited for one.
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { KeyedLock, type Guard, type StripedLock } from 'stripelock';
import { Agent } from '../../support/agent.js';
import { startThread } from '../../support/threads.js';
import { Victim } from '../../support/victim.js';
import { turns, until, watch } from '../../support/waiting.js';

const LIMIT = 3;
/** Somewhat longer than a reservation lasts (`patience.head`), in milliseconds: clocks of threads differ a little. */
const RESERVED_FOR = 30;

function newLock(): KeyedLock {
  return new KeyedLock({ engine: 'javascript', limit: LIMIT, timeout: 20_000 });
}

function takeRest(lock: KeyedLock, key: string): Guard[] {
  const guards: Guard[] = [];
  for (let guard; (guard = lock.tryAcquire(key)) !== undefined;) guards.push(guard);
  return guards;
}

describe('a thread that is terminated while it has permits', () => {
  it('keeps them, and the others go round', async () => {
    const lock = newLock();
    const agent = await Agent.start(lock as unknown as StripedLock);
    const victim = await Victim.start(lock as unknown as StripedLock, {
      holds: [{ keys: ['one', 'two', 'three'] }, { keys: ['two', 'three'], how: 'async' }, { keys: 'three' }],
    });
    await victim.end('terminate');
    expect(lock.stats()).toMatchObject({ held: 3, waiting: 0, abandoned: 0 });
    // It shows who has permits in its own thread alone.
    expect(lock.inspect().map(({ holders }) => holders)).toEqual([[], [], []]);
    for (const [key, left] of [
      ['one', 2],
      ['two', 1],
      ['three', 0],
    ] as const) {
      for (let round = 0; round < 3; round++) {
        const guards = takeRest(lock, key);
        expect(guards.map(({ abandoned }) => abandoned)).toEqual(Array(left).fill(false));
        expect(await agent.tryAcquire(key)).toBeUndefined();
        const waits = [watch(lock.acquire(key)), watch(agent.acquireSync(key, { timeout: 20_000 }))];
        await turns();
        expect(waits.map(({ state }) => state)).toEqual(['pending', 'pending']);
        if (left === 0) break;
        for (const guard of guards) guard.release();
        // With one permit left they get it one after the other.
        await Promise.all(waits.map(async ({ promise }) => (await promise).release()));
      }
    }
    expect(lock.stats()).toMatchObject({ held: 3, deadlocks: 0, timeouts: 0 });
  });
});

describe('a thread that is terminated while it waits for a permit', () => {
  for (const way of ['sync', 'async'] as const) {
    it(`(${way}) takes none along, and those behind it get what they wait for`, async () => {
      for (let round = 0; round < 12; round++) {
        const lock = newLock();
        let ours: { release(): void }[] = takeRest(lock, 'key');
        const dead = startThread('javascript-waiter.mjs', { handle: lock.handle, way });
        await once(dead, 'message');
        await until(() => lock.stats().waiting === 1, 'the thread waits');
        // In later rounds it was called and passed by, so that it is the head of its lane.
        const passes = round % 4;
        for (let i = 0; i < passes; i++) {
          ours.pop()!.release();
          // It may have been quicker. Then this comes behind it.
          ours.push(lock.acquireSync('key'));
        }
        await delay(round % 3);
        await dead.terminate();
        const agent = await Agent.start(lock as unknown as StripedLock);
        const behind = [watch(agent.acquireSync('key', { timeout: 20_000 })), watch(lock.acquire('key'))];
        await turns();
        for (const guard of ours) guard.release();
        ours = [];
        for (const { promise } of behind) await (await promise).release();
        // In a round with a release it may have got one in the moment in which it was ended, and keeps that.
        const least = passes === 0 ? LIMIT : LIMIT - 1;
        await until(() => (ours.push(...takeRest(lock, 'key')), ours.length >= least), 'all are free');
        await delay(RESERVED_FOR);
        ours.push(...takeRest(lock, 'key'));
        expect(ours.length, `round ${round}`).toBeLessThanOrEqual(LIMIT);
        expect(await agent.tryAcquire('key')).toBeUndefined();
        for (const guard of ours) guard.release();
      }
    });
  }

  it('leaves a permit to the next tryAcquire, at once, or when what was kept for it lapses', async () => {
    const lock = newLock();
    const ours = takeRest(lock, 'key');
    const dead = startThread('javascript-waiter.mjs', { handle: lock.handle, way: 'sync' });
    await once(dead, 'message');
    await until(() => lock.stats().waiting === 1, 'the thread waits');
    await dead.terminate();
    for (const guard of ours) guard.release();
    let free: Guard[] = [];
    await until(() => (free = [...free, ...takeRest(lock, 'key')]).length === LIMIT, 'all are free');
    for (const guard of free) guard.release();
    // Nothing is left in the word: the fast path takes and gives back again.
    expect(takeRest(lock, 'key')).toHaveLength(LIMIT);
  });
});
