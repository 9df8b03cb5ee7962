import { describe, expect, it } from 'vitest';
import type { LockMode } from 'stripelock';
import { Agent } from '../support/agent.js';
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

      // It is no longer in a queue, and holds nothing.
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

  it('with hundreds of acquisitions pending leaves none of them', async () => {
    const lock = newLock();
    const keys = keysApart(lock, 4);
    const ours = lock.acquireSync(keys);
    const pending = Array.from({ length: 400 }, (_, i) => ({
      keys: i % 3 === 0 ? keys : keys[i % 4]!,
      mode: i % 5 === 0 ? ('shared' as const) : ('exclusive' as const),
    }));
    const victim = await Victim.start(lock, { pending });
    expect(lock.stats().waiting).toBe(400);
    await victim.end('terminate');
    expect(lock.stats().waiting).toBe(0);
    expect(lock.inspect().flatMap(({ waiters }) => waiters)).toEqual([]);
    ours.release();
    expectIdle(lock);
  });

  // Its event loop is blocked, so that it can be granted what it waits for, but never learns of it.
  for (const end of ['terminate', 'exit', 'throw'] as const) {
    it(`(${end}) after a grant that it does not know of passes it on`, async () => {
      const lock = newLock();
      const agent = await Agent.start(lock);
      const times: number[] = [];
      for (const { mode, count } of LEAVE_BEHIND) {
        const keys = keysApart(lock, count);
        const ours = lock.acquireSync(keys[0]!);
        const cell = new SharedArrayBuffer(4);
        const victim = await Victim.start(lock, {
          pending: [{ keys, mode }],
          numb: { cell, end: end === 'terminate' ? 'return' : end },
        });
        await until(() => lock.stats().waiting === 1, 'it waits');
        const blocked = agent.acquireSync(keys, FOR_EVER);
        await until(() => lock.stats().waiting === 2, 'another thread waits behind it');
        // A release hands the stripe over to the head of a queue that has been there for 1 ms.
        await until(() => lock.inspect()[0]!.waiters[0]!.waitingFor > 2, 'the hand-over is due');
        ours.release();
        const holders = [{ threadId: victim.threadId }];
        expect(lock.inspect()).toMatchObject(keys.map(() => ({ mode, holders })));
        const told: boolean[] = [];
        const behind = keys.map((key) =>
          lock.acquire(key, FOR_EVER).then((guard) => {
            told.push(guard.abandoned);
            guard.release();
          }),
        );
        const after = blocked.then((guard) => {
          told.push(guard.abandoned);
          return guard.release();
        });

        const granted = timeOf(Promise.all(behind));
        const exit = victim.exit();
        if (end === 'terminate') void victim.worker.terminate();
        else Atomics.store(new Int32Array(cell), 0, 1);
        Atomics.notify(new Int32Array(cell), 0);
        const ended = await exit;
        times.push((await granted) - ended);
        await after;
        // The grant was never used, so nothing is half-written.
        expect(told).toEqual(Array.from({ length: count + 1 }, () => false));
        expect(lock.stats().abandoned).toBe(0);
        expectIdle(lock);
      }
      expectPrompt(`from the end (${end}) of a thread with unseen grants to those behind it`, times, GO_ON);
    });
  }

  it('and is terminated during a hand-over passes the stripe on or releases it', async () => {
    const lock = newLock(1);
    for (let round = 0; round < 5; round++) {
      const ours = lock.acquireSync('key');
      const victims = await Promise.all(
        Array.from({ length: 3 }, () => Victim.start(lock, { parked: { keys: 'key' } })),
      );
      await until(() => lock.stats().waiting === 3, 'all are blocked');
      const behind = lock.acquire('key', FOR_EVER);
      const ended = Promise.all(victims.map((victim) => victim.end('terminate')));
      // A blocked thread checks about every 20 ms whether it has to end.
      const release = performance.now() + round * 5;
      while (performance.now() < release);
      ours.release();
      (await behind).release();
      await ended;
      expectIdle(lock);
    }
  });
});
