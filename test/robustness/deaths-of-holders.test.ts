import { describe, expect, it } from 'vitest';
import { StripedLock, type Guard, type LockMode } from 'stripelock';
import { wordIndex } from '../../lib/engine/contract/layout.js';
import { HOLDER_MASK } from '../../lib/engine/contract/lock-word.js';
import { Agent } from '../support/agent.js';
import { keysApart } from '../support/keys.js';
import { expectPrompt } from '../support/prompt.js';
import { ENDS, Victim } from '../support/victim.js';
import { rejectionOf, turns, until } from '../support/waiting.js';

/** Milliseconds from a thread's end in which those who waited for it must go on. */
const GO_ON = 100;
const FOR_EVER = { timeout: Infinity };

function newLock(stripes = 64): StripedLock {
  return new StripedLock({ engine: 'native', stripes, name: 'mortal' });
}

/** When a promise was fulfilled, on performance.now()'s clock. */
async function timeOf(promise: Promise<unknown>): Promise<number> {
  await promise;
  return performance.now();
}

function expectIdle(lock: StripedLock): void {
  expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0, deadlocks: 0 });
  expect(lock.inspect()).toEqual([]);
}

/** Every way in which stripes may be held. */
const HOLDS = (['exclusive', 'shared'] as const).flatMap((mode) =>
  (['sync', 'async'] as const).flatMap((how) => [1, 5].map((count) => ({ mode, how, count }))),
);

describe('a thread that holds stripes when it ends', () => {
  for (const end of ENDS) {
    it(`(${end}) frees them, and those who wait go on, the first being told`, async () => {
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
        // One for each stripe on an event loop, and behind these a blocked one for all of them.
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

        // From here on nobody calls the lock: it is the end alone that lets them go on.
        const ended = await victim.end(end);
        times.push(Math.max(...(await granted)) - ended);
        await released;
        const first = (await Promise.all(waiting)).filter((guard) => guard.abandoned);
        // A blocked thread may overtake an event loop that is slow to come, and is told in its place then.
        expect((await blocked).abandoned).toBe(first.length < count);
        abandoned += count;
        expect(lock.stats().abandoned).toBe(abandoned);
        expectIdle(lock);
      }
      expectPrompt(`from the end (${end}) to the grants`, times, GO_ON);
    });
  }

  it('lets a blocked thread go on, which is told', async () => {
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
      expect(guard.abandoned).toBe(true);
      await guard.release();
      expectIdle(lock);
    }
    expectPrompt('from the end to the grant to a blocked thread', times, GO_ON);
  });

  it('is told to the next exclusive holder, once, however that acquires, and to shared ones before it', async () => {
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

  it('leaves alone what other threads hold shared with it', async () => {
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
    expect(next.abandoned).toBe(true);
    next.release();
    expect(lock.stats().abandoned).toBe(1);
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
      expect(lock.tryAcquire('key')).toMatchObject({ abandoned: true });
      expect(lock.stats().abandoned).toBe(2);
    }
  });

  it('frees also what its own threads held, which end with it', async () => {
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

describe('a thread that waits when it ends', () => {
  const LEAVE_BEHIND = (['exclusive', 'shared'] as const).flatMap((mode) =>
    [1, 3].map((count) => ({ mode, count })),
  );

  /** A victim that waits for a key that is held here, and, where there are several, holds those before it. */
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

      // It is in no queue any more, and is granted nothing.
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
      // What was taken for an acquisition that never came about protected nothing.
      for (const part of forPart) {
        expect((await part).abandoned).toBe(false);
        (await part).release();
      }
      expectIdle(lock);
    }
    expect(lock.stats().abandoned).toBe(ends.length);
    return times;
  }

  it('blocked, vanishes from the queue and gives back what it had', async () => {
    const times: number[] = [];
    for (const want of LEAVE_BEHIND) times.push(...(await withWaiting('parked', ['terminate'], want)));
    expectPrompt('from the end of a blocked thread to the grants', times, GO_ON);
  });

  it('pending, vanishes from the queue and gives back what it had', async () => {
    const times: number[] = [];
    const ends = ENDS.filter((end) => end !== 'return');
    for (const want of LEAVE_BEHIND) times.push(...(await withWaiting('pending', ends, want)));
    expectPrompt('from the end of a thread with pending acquisitions to the grants', times, GO_ON);
  });

  it('with hundreds of acquisitions pending takes them all with it', async () => {
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

  // Its event loop stands still, so that it can be granted what it waits for, but never learns of it.
  for (const end of ['terminate', 'exit', 'throw'] as const) {
    it(`(${end}) and has been granted it, but not come to know, passes it on`, async () => {
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
        // The head of a queue is handed the stripe when it has been there for 1 ms.
        await until(() => lock.inspect()[0]!.waiters[0]!.waitingFor > 2, 'the hand-over is due');
        ours.release();
        // A shared hold is told as its thread's when that has come to know of it.
        const holders = mode === 'exclusive' ? [{ threadId: victim.threadId }] : [];
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
        // It was never used, so nothing is half-written.
        expect(told).toEqual(Array.from({ length: count + 1 }, () => false));
        expect(lock.stats().abandoned).toBe(0);
        expectIdle(lock);
      }
      expectPrompt(`from the end (${end}) of a thread with unseen grants to those behind it`, times, GO_ON);
    });
  }

  it('is terminated while the stripe is being handed to it: that is passed on or given back', async () => {
    const lock = newLock(1);
    for (let round = 0; round < 5; round++) {
      const ours = lock.acquireSync('key');
      const victims = await Promise.all(
        Array.from({ length: 3 }, () => Victim.start(lock, { parked: { keys: 'key' } })),
      );
      await until(() => lock.stats().waiting === 3, 'all are blocked');
      const behind = lock.acquire('key', FOR_EVER);
      const ended = Promise.all(victims.map((victim) => victim.end('terminate')));
      // A thread that is to end looks about every 20 ms whether it is.
      const release = performance.now() + round * 5;
      while (performance.now() < release);
      ours.release();
      (await behind).release();
      await ended;
      expectIdle(lock);
    }
  });
});

describe('slot numbers', () => {
  const slotOf = (lock: StripedLock, key: string): number =>
    new Int32Array(lock.handle['buffer'] as SharedArrayBuffer)[wordIndex(lock.stripeOf(key))]! & HOLDER_MASK;

  it('are used again, and their next thread inherits nothing', async () => {
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
      // Had it inherited the stripe, it would wait for itself.
      expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', holders: [0] });
      ours.release();
      const guard = await heir.acquireSync([exclusive, shared]);
      slots.add(slotOf(lock, exclusive));
      await guard.release();
      expect(lock.inspect()).toEqual([]);
      await heir.worker.terminate();
    }
    expect(slots.size).toBe(1);
  });
});
