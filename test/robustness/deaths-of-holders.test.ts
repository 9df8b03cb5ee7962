import { describe, expect, it } from 'vitest';
import type { Guard, StripedLock } from 'stripelock';
import { wordIndex } from '../../lib/engine/contract/layout.js';
import { HOLDER_MASK } from '../../lib/engine/contract/lock-word.js';
import { Agent } from '../support/agent.js';
import { expectIdle, FOR_EVER, GO_ON, newLock, timeOf } from '../support/deaths.js';
import { wordsOf } from '../support/handle-memory.mjs';
import { keysApart } from '../support/keys.js';
import { expectPrompt } from '../support/prompt.js';
import { ENDS, Victim } from '../support/victim.js';
import { rejectionOf, turns, until } from '../support/waiting.js';

/** Every way in which stripes may be held. */
const HOLDS = (['exclusive', 'shared'] as const).flatMap((mode) =>
  (['sync', 'async'] as const).flatMap((how) => [1, 5].map((count) => ({ mode, how, count }))),
);

describe('a thread that holds stripes when it ends', () => {
  for (const end of ENDS) {
    it(`(${end}) frees them, and those who wait go on, the first with an abandoned guard if it held them exclusively`, async () => {
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

        // From here on nobody calls the lock: only the end of the thread lets them go on.
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

  it('lets a blocked thread go on with an abandoned guard', async () => {
    const lock = newLock();
    const agent = await Agent.start(lock);
    const times: number[] = [];
    for (const { mode, how, count } of HOLDS) {
      const keys = keysApart(lock, count);
      const victim = await Victim.start(lock, { holds: [{ keys, mode, how }] });
      const blocked = agent.acquireSync(keys, FOR_EVER);
      const granted = timeOf(blocked);
      await until(() => lock.stats().waiting === 1, 'the other thread is blocked');
      const ended = await victim.end('terminate');
      times.push((await granted) - ended);
      const guard = await blocked;
      expect(guard.abandoned).toBe(mode === 'exclusive');
      await guard.release();
      expectIdle(lock);
    }
    expectPrompt('from the end to the grant to a blocked thread', times, GO_ON);
  });

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

  it('does not affect shared holds of other threads, nor tell of its own', async () => {
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

  it('frees what it held of several locks', async () => {
    const locks = Array.from({ length: 3 }, () => newLock(1));
    const victims = await Promise.all(
      locks.flatMap((lock) => [
        Victim.start(lock, { holds: [{ keys: 'key', mode: 'shared' }] }),
        Victim.start(lock, { holds: [{ keys: 'key', mode: 'shared' }] }),
      ]),
    );
    await Promise.all(victims.map((victim, i) => victim.end(ENDS[i % ENDS.length]!)));
    for (const lock of locks) {
      expect(lock.tryAcquire('key')).toMatchObject({ abandoned: false });
      expect(lock.stats().abandoned).toBe(0);
    }
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

describe('slot numbers', () => {
  const slotOf = (lock: StripedLock, key: string): number =>
    wordsOf(lock.handle)[wordIndex(lock.stripeOf(key))]! & HOLDER_MASK;

  it('are reused, and the next thread inherits nothing', async () => {
    const lock = newLock();
    const [exclusive, shared] = keysApart(lock, 2) as [string, string];
    const slots = new Set<number>();
    for (let round = 0; round < 5; round++) {
      const victim = await Victim.start(lock, {
        holds: [{ keys: exclusive }, ...[1, 2].map(() => ({ keys: shared, mode: 'shared' as const }))],
      });
      slots.add(slotOf(lock, exclusive));
      await victim.end(ENDS[round % ENDS.length]!);
      const ours = lock.acquireSync([exclusive, shared]);
      expect(ours.abandoned).toBe(true);

      const heir = await Agent.start(lock);
      const error = await rejectionOf(heir.acquireSync(exclusive, { timeout: 5 }));
      // If it had inherited the stripe, it would wait for itself.
      expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', holders: [0] });
      ours.release();
      const guard = await heir.acquireSync([exclusive, shared]);
      slots.add(slotOf(lock, exclusive));
      await guard.release();
      expect(lock.inspect()).toEqual([]);
      await heir.worker.terminate();
    }
    expect(slots.size).toBe(1);
    // 0 is no slot: the words were read where the lock keeps them.
    expect(slots.has(0)).toBe(false);
  });
});
