import { describe, expect, it } from 'vitest';
import type { LockMode } from 'stripelock';
import { expectIdle, FOR_EVER, GO_ON, newLock, timeOf } from '../support/deaths.js';
import { keysApart } from '../support/keys.js';
import { expectPrompt } from '../support/prompt.js';
import { ENDS, Victim } from '../support/victim.js';
import { until } from '../support/waiting.js';

describe('a thread that waits when it ends', () => {
  const LEAVE_BEHIND = (['exclusive', 'shared'] as const).flatMap((mode) =>
    [1, 3].map((count) => ({ mode, count })),
  );

  /** Times of victims that wait for a key held here; one that wants several keys holds those before it. */
  async function withWaiting(
    how: 'parked' | 'pending',
    ends: readonly (typeof ENDS)[number][],
    { mode, count }: { mode: LockMode; count: number },
  ): Promise<number[]> {
    const lock = newLock();
    const times: number[] = [];
    const keys = keysApart(lock, count + 1);
    const own = keys.pop()!;
    const wanted = keys.at(-1)!;
    for (const end of ends) {
      const ours = lock.acquireSync(wanted);
      const want = { keys, mode };
      const victim = await Victim.start(lock, {
        holds: [{ keys: own }],
        ...(how === 'parked' ? { parked: want } : { pending: [want] }),
      });
      await until(() => lock.stats().waiting === 1, 'it waits');
      const at = lock.inspect().find(({ stripe }) => stripe === lock.stripeOf(wanted));
      expect(at!.waiters).toMatchObject([{ threadId: victim.threadId, mode }]);
      const forOwn = lock.acquire(own, FOR_EVER);
      const forPart = keys.slice(0, -1).map((key) => lock.acquire(key, FOR_EVER));
      const behind = lock.acquire(wanted, FOR_EVER);
      const granted = Promise.all([forOwn, ...forPart].map(timeOf));
      const ended = await victim.end(end);
      times.push(Math.max(...(await granted)) - ended);

      // It has left the queue, and holds nothing.
      const states = lock.inspect();
      expect(states.flatMap(({ holders }) => holders.map(({ threadId }) => threadId))).not.toContain(
        victim.threadId,
      );
      const rest = states.find(({ stripe }) => stripe === lock.stripeOf(wanted))!;
      expect(rest.waiters.map(({ threadId }) => threadId)).toEqual([0]);
      ours.release();
      const guard = await behind;
      expect(guard.abandoned).toBe(false);
      guard.release();
      expect((await forOwn).abandoned).toBe(true);
      (await forOwn).release();
      // A key that was taken for an acquisition that never finished protected nothing.
      for (const part of forPart) {
        expect((await part).abandoned).toBe(false);
        (await part).release();
      }
      expectIdle(lock);
    }
    expect(lock.stats().abandoned).toBe(ends.length);
    return times;
  }

  it('while it is blocked leaves the queue and releases what it had', async () => {
    const times: number[] = [];
    for (const want of LEAVE_BEHIND) times.push(...(await withWaiting('parked', ['terminate'], want)));
    expectPrompt('from the end of a blocked thread to the grants', times, GO_ON);
  });

  it('with an acquisition pending leaves the queue and releases what it had', async () => {
    const times: number[] = [];
    const ends = ENDS.filter((end) => end !== 'return');
    for (const want of LEAVE_BEHIND) times.push(...(await withWaiting('pending', ends, want)));
    expectPrompt('from the end of a thread with pending acquisitions to the grants', times, GO_ON);
  });
});
