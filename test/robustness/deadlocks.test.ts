import { describe, expect, it } from 'vitest';
import type { StripedLock } from 'stripelock';
import { Agent } from '../support/agent.js';
import { runCycles, type Cycle } from '../support/cycles.mjs';
import { newLock } from '../support/deadlocks.js';
import { keysApart } from '../support/keys.js';
import { expectPrompt } from '../support/prompt.js';
import { runThread } from '../support/threads.js';
import { until, watch } from '../support/waiting.js';

/** Milliseconds in which a cycle must be found. */
const FOUND = 100;

describe('threads that block for each other in a cycle', () => {
  function expectCycle(cycle: Cycle, locks: readonly StripedLock[], keys: readonly string[]): void {
    const { threads, refused } = cycle;
    expect(refused).toHaveLength(1);
    const [{ index, error }] = refused as [Cycle['refused'][number]];
    const size = threads.length;
    const inOrder = threads.map((_, i) => (index + i) % size);
    const wanted = inOrder.map((i) => (i + 1) % size);
    const stripes = wanted.map((i) => locks[i % locks.length]!.stripeOf(keys[i]!));
    expect(error).toMatchObject({
      name: 'DeadlockError',
      code: 'ERR_LOCK_DEADLOCK',
      keys: [keys[wanted[0]!]],
      threads: inOrder.map((i) => threads[i]),
      stripes,
    });
    for (const [i, thread] of error.threads.entries()) {
      expect(error.message).toContain(`thread ${thread} waits for stripe ${stripes[i]}`);
    }
    expect(error.message).toContain(keys[wanted[0]!]);
    expect(error.message).toContain('in one call');
  }

  for (const [size, rounds] of [
    [2, 30],
    [3, 20],
    [8, 10],
  ] as const) {
    it(`of ${size}: exactly one is refused, soon, and the others continue`, async () => {
      const lock = newLock();
      const keys = keysApart(lock, size);
      const cycles = await runCycles(runThread, [lock], keys, rounds);
      for (const cycle of cycles) expectCycle(cycle, [lock], keys);
      expectPrompt(
        `cycle of ${size}: refusal`,
        cycles.map(({ found }) => found),
        FOUND,
      );
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: rounds, timeouts: 0 });
    });
  }

  it('are found when holds or requests are shared, and across several locks', async () => {
    for (const modes of [{ mode: 'shared' }, { wantedMode: 'shared' }, {}] as const) {
      const locks = [newLock(), newLock()];
      const keys = keysApart(locks[0]!, 4);
      const cycles = await runCycles(runThread, locks, keys, 5, modes);
      for (const cycle of cycles) expectCycle(cycle, locks, keys);
      expectPrompt(
        'cycle through two locks: refusal',
        cycles.map(({ found }) => found),
        FOUND,
      );
      const deadlocks = locks.map((lock) => lock.stats().deadlocks);
      expect(deadlocks[0]! + deadlocks[1]!).toBe(5);
    }
  });

  it('are found when each waits for several keys and has some of them', async () => {
    const lock = newLock();
    const [a, b, c, d] = keysApart(lock, 4) as [string, string, string, string];
    const [one, two] = await Promise.all([Agent.start(lock), Agent.start(lock)]);
    const heldByOne = await one.acquireSync(c);
    const heldByTwo = await two.acquireSync(d);
    const first = watch(one.acquireSync([a, d]));
    const second = watch(two.acquireSync([b, c]));
    await until(() => first.state !== 'pending' || second.state !== 'pending', 'one is refused');
    const [refused, other, theirs] =
      first.state === 'pending' ? [second, first, heldByTwo] : [first, second, heldByOne];
    expect(refused.reason).toMatchObject({ code: 'ERR_LOCK_DEADLOCK' });
    expect(other.state).toBe('pending');
    // It released the keys that it had taken.
    lock.acquireSync(refused === first ? a : b).release();
    await theirs.release();
    await (await other.promise).release();
    expect(lock.stats()).toMatchObject({ waiting: 0, held: 1, deadlocks: 1 });
  });
});
