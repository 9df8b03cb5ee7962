import { describe, expect, it } from 'vitest';
import type { Guard } from 'stripelock';
import { Agent } from '../support/agent.js';
import { expectIdle, FOR_EVER, GO_ON, newLock, timeOf } from '../support/deaths.js';
import { keysApart } from '../support/keys.js';
import { expectPrompt } from '../support/prompt.js';
import { ENDS, Victim } from '../support/victim.js';
import { turns, until } from '../support/waiting.js';

/** Every way in which stripes may be held. */
const HOLDS = (['exclusive', 'shared'] as const).flatMap((mode) =>
  (['sync', 'async'] as const).flatMap((how) => [1, 5].map((count) => ({ mode, how, count }))),
);

describe('a thread that holds stripes when it ends', () => {
  for (const end of ENDS) {
    it(`(${end}) frees them, and waiters are granted them, the first with an abandoned guard if the hold was exclusive`, async () => {
      const lock = newLock();
      const agent = await Agent.start(lock);
      const times: number[] = [];
      let abandoned = 0;
      for (const { mode, how, count } of HOLDS) {
        const keys = keysApart(lock, count);
        const victim = await Victim.start(lock, { holds: [{ keys, mode, how }] });
        expect(lock.inspect().map(({ holders }) => holders)).toEqual(
          keys.map(() => [{ threadId: victim.threadId }]),
        );
        // For each stripe one waiter on an event loop, and behind these a blocked thread for all of them.
        const waiting = keys.map(async (key) => {
          const guard = await lock.acquire(key, FOR_EVER);
          guard.release();
          return guard;
        });
        const granted = Promise.all(waiting.map(timeOf));
        await turns();
        const blocked = agent.acquireSync(keys, FOR_EVER);
        const released = blocked.then((guard) => guard.release());
        await until(() => lock.stats().waiting === count + 1, 'all wait');

        // From here on no thread calls the lock: only the end of the thread lets them continue.
        const ended = await victim.end(end);
        times.push(Math.max(...(await granted)) - ended);
        await released;
        const first = (await Promise.all(waiting)).filter((guard) => guard.abandoned);
        // A blocked thread may overtake a slow event loop. Then its guard is abandoned instead.
        const told = mode === 'exclusive' ? count : 0;
        expect((await blocked).abandoned).toBe(first.length < told);
        abandoned += told;
        expect(lock.stats().abandoned).toBe(abandoned);
        expectIdle(lock);
      }
      expectPrompt(`from the end (${end}) to the grants`, times, GO_ON);
    });
  }

  it('abandons the guards of the next exclusive holder and of shared ones before it, however these acquire', async () => {
    const lock = newLock();
    const ways: Record<string, () => Guard | Promise<Guard>> = {
      acquireSync: () => lock.acquireSync('key'),
      acquire: () => lock.acquire('key'),
      tryAcquire: () => lock.tryAcquire('key')!,
      withLock: () => lock.withLock('key', (guard) => guard),
      withLockSync: () => lock.withLockSync('key', (guard) => guard),
      'acquireSync, one attempt': () => lock.acquireSync('key', { timeout: 0 }),
      'acquire, one attempt': () => lock.acquire('key', { timeout: 0 }),
      'several keys': () => lock.acquireSync(['key', 'another', 'third']),
    };
    for (const [way, take] of Object.entries(ways)) {
      const victim = await Victim.start(lock, { holds: [{ keys: 'key' }] });
      await victim.end('terminate');
      const readers = [
        lock.acquireSync('key', { mode: 'shared' }),
        lock.tryAcquire('key', { mode: 'shared' })!,
        await lock.acquire('key', { mode: 'shared' }),
      ];
      expect(readers.map(({ abandoned }) => abandoned)).toEqual([true, true, true]);
      for (const reader of readers) reader.release();
      for (const expected of [true, false, false]) {
        const guard = await take();
        expect({ way, abandoned: guard.abandoned }).toEqual({ way, abandoned: expected });
        guard.release();
      }
    }
    expect(lock.stats().abandoned).toBe(Object.keys(ways).length);
    expectIdle(lock);
  });

  it('affects no shared holds of other threads, and does not report the death of a reader', async () => {
    const lock = newLock();
    const ours = lock.acquireSync('key', { mode: 'shared' });
    const victim = await Victim.start(lock, {
      holds: [
        { keys: 'key', mode: 'shared' },
        { keys: 'key', mode: 'shared', how: 'async' },
      ],
    });
    await victim.end('exit');
    expect(lock.inspect()).toMatchObject([{ mode: 'shared', holders: ours.stripes.map(() => ({})) }]);
    expect(lock.tryAcquire('key')).toBeUndefined();
    ours.release();
    const next = lock.tryAcquire('key')!;
    expect(next.abandoned).toBe(false);
    next.release();
    expect(lock.stats().abandoned).toBe(0);
    expectIdle(lock);
  });

  it('frees what its own worker threads held, which end with it', async () => {
    const lock = newLock();
    for (const end of ['terminate', 'exit'] as const) {
      const [held, wanted] = keysApart(lock, 2) as [string, string];
      const ours = lock.acquireSync(wanted);
      const parent = await Victim.start(
        lock,
        { holds: [{ keys: held }], parked: { keys: wanted } },
        'nested.mjs',
      );
      await until(() => lock.stats().waiting === 1, 'the inner thread is blocked');
      const waiting = lock.acquire(held, FOR_EVER);
      await parent.end(end);
      const guard = await waiting;
      expect(guard.abandoned).toBe(true);
      guard.release();
      ours.release();
      expectIdle(lock);
    }
  });
});
