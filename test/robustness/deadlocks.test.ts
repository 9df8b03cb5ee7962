import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { DeadlockError, LockError, StripedLock, type LockMode } from 'stripelock';
import { Agent } from '../support/agent.js';
import { runCircles, type Circle } from '../support/cycles.mjs';
import { keysApart, keysTogether } from '../support/keys.js';
import { expectPrompt } from '../support/prompt.js';
import { seedFor } from '../support/seed.js';
import { runThread, runThreads } from '../support/threads.js';
import { thrownBy, turns, until, watch } from '../support/waiting.js';

/** Milliseconds in which a circle must be found. */
const FOUND = 100;
/** The same, where a thread waits for itself: it must not even go to sleep, which it does for 5 ms at the least. */
const AT_ONCE = 4;

function newLock(stripes = 64): StripedLock {
  return new StripedLock({ engine: 'native', stripes, name: 'knots', timeout: Infinity });
}

describe('a blocking wait for what the own thread holds', () => {
  const apart = keysApart(newLock(), 3) as [string, string, string];
  const together = keysTogether(newLock(), 2) as [string, string];
  type Keys = string | readonly string[];
  const both: LockMode[] = ['exclusive', 'shared'];
  const cases: { what: string; held: Keys; mode: LockMode; wanted: Keys; wantedModes: LockMode[] }[] = [
    { what: 'the same key', held: apart[0], mode: 'exclusive', wanted: apart[0], wantedModes: both },
    {
      what: 'a key on the same stripe',
      held: together[0],
      mode: 'exclusive',
      wanted: together[1],
      wantedModes: both,
    },
    { what: 'one key of several', held: apart[2], mode: 'exclusive', wanted: apart, wantedModes: both },
    { what: 'one of several keys held', held: apart, mode: 'exclusive', wanted: apart[1], wantedModes: both },
    { what: 'an upgrade', held: apart[0], mode: 'shared', wanted: apart[0], wantedModes: ['exclusive'] },
    {
      what: 'an upgrade of one of several, by a key on the same stripe',
      held: [together[0], ...apart],
      mode: 'shared',
      wanted: [apart[1], together[1]],
      wantedModes: ['exclusive'],
    },
  ];
  for (const { what, held, mode, wanted, wantedModes } of cases) {
    it(`is refused at once, and one attempt just fails: ${what}`, async () => {
      const times: number[] = [];
      for (const how of ['acquireSync', 'acquire', 'tryAcquire', 'of another opening'] as const) {
        const lock = newLock();
        const opened = how === 'of another opening' ? StripedLock.from(lock.handle) : lock;
        const holder =
          how === 'acquire' ? await lock.acquire(held, { mode }) : opened.tryAcquire(held, { mode })!;
        const holding = lock.inspect();
        for (const [i, wantedMode] of wantedModes.entries()) {
          const start = performance.now();
          const error = thrownBy(() => lock.acquireSync(wanted, { mode: wantedMode }));
          times.push(performance.now() - start);
          expect(error).toBeInstanceOf(DeadlockError);
          expect(thrownBy(() => lock.withLockSync(wanted, { mode: wantedMode }, () => 'ran'))).toBeInstanceOf(
            DeadlockError,
          );
          expect(lock.tryAcquire(wanted, { mode: wantedMode })).toBeUndefined();
          // At once: none of it was ever put to wait.
          expect(lock.stats()).toMatchObject({ deadlocks: 2 * (i + 1), waiting: 0, contended: 0 });
        }
        // Of what was refused nothing is held; what was held still is.
        expect(lock.inspect()).toEqual(holding);
        holder.release();
        lock.acquireSync(wanted).release();
      }
      expectPrompt(`refusal of ${what}`, times, AT_ONCE);
    });
  }

  it('is refused where a queued writer would block a second shared hold for ever', async () => {
    const lock = newLock();
    const times: number[] = [];
    for (const writerOn of ['another thread, blocked', 'another thread', 'this thread']) {
      const agent = await Agent.start(lock);
      const first = lock.acquireSync('key', { mode: 'shared' });
      const writer =
        writerOn === 'this thread'
          ? watch(lock.acquire('key'))
          : watch(writerOn === 'another thread' ? agent.acquire('key') : agent.acquireSync('key'));
      await until(() => lock.stats().waiting === 1, 'the writer is queued');
      const { deadlocks, contended } = lock.stats();
      if (writerOn === 'this thread') {
        // Its writer cannot be granted while it blocks, so it does not stand in the way.
        lock.acquireSync('key', { mode: 'shared' }).release();
        expect(lock.stats().deadlocks).toBe(deadlocks);
      } else {
        const start = performance.now();
        expect(thrownBy(() => lock.acquireSync('key', { mode: 'shared' }))).toBeInstanceOf(DeadlockError);
        times.push(performance.now() - start);
        expect(lock.tryAcquire('key', { mode: 'shared' })).toBeUndefined();
        expect(lock.stats()).toMatchObject({ deadlocks: deadlocks + 1, contended });
      }
      expect(writer.state).toBe('pending');
      first.release();
      await (await writer.promise).release();
      expect(lock.inspect()).toEqual([]);
    }
    expectPrompt('refusal of a second shared hold', times, AT_ONCE);
  });

  it('is told with the thread, the keys, the stripe and what to do', () => {
    const lock = newLock();
    const [held, wanted] = keysTogether(lock, 2) as [string, string];
    lock.acquireSync(held);
    const error = thrownBy(() => lock.acquireSync([wanted, 'another'])) as DeadlockError;
    expect(error).toBeInstanceOf(LockError);
    expect(error).toMatchObject({
      name: 'DeadlockError',
      code: 'ERR_LOCK_DEADLOCK',
      keys: [wanted, 'another'],
      threads: [0],
      stripes: [lock.stripeOf(wanted)],
    });
    for (const part of [
      '"knots"',
      wanted,
      'thread (0)',
      `stripe ${lock.stripeOf(wanted)}`,
      'share a stripe',
      'in one call',
    ]) {
      expect(error.message).toContain(part);
    }
  });
});

describe('threads that block for each other in a circle', () => {
  function expectCircle(circle: Circle, locks: readonly StripedLock[], keys: readonly string[]): void {
    const { threads, refused } = circle;
    expect(refused).toHaveLength(1);
    const [{ index, error }] = refused as [Circle['refused'][number]];
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
    it(`of ${size}: exactly one is refused, soon, and the others go on`, async () => {
      const lock = newLock();
      const keys = keysApart(lock, size);
      const circles = await runCircles(runThread, [lock], keys, rounds);
      for (const circle of circles) expectCircle(circle, [lock], keys);
      expectPrompt(
        `circle of ${size}: refusal`,
        circles.map(({ found }) => found),
        FOUND,
      );
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: rounds, timeouts: 0 });
    });
  }

  it('are found where holds are shared, where wants are, and across several locks', async () => {
    for (const modes of [{ mode: 'shared' }, { wantedMode: 'shared' }, {}] as const) {
      const locks = [newLock(), newLock()];
      const keys = keysApart(locks[0]!, 4);
      const circles = await runCircles(runThread, locks, keys, 5, modes);
      for (const circle of circles) expectCircle(circle, locks, keys);
      expectPrompt(
        'circle through two locks: refusal',
        circles.map(({ found }) => found),
        FOUND,
      );
      const deadlocks = locks.map((lock) => lock.stats().deadlocks);
      expect(deadlocks[0]! + deadlocks[1]!).toBe(5);
    }
  });

  it('are found where each waits for several keys, of which it has some by then', async () => {
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
    // What it had taken of its keys it gave back.
    lock.acquireSync(refused === first ? a : b).release();
    await theirs.release();
    await (await other.promise).release();
    expect(lock.stats()).toMatchObject({ waiting: 0, held: 1, deadlocks: 1 });
  });
});

describe('a wait that can end', () => {
  it('is not refused: on the event loop, for what the own thread holds', async () => {
    const lock = newLock();
    for (const mode of ['exclusive', 'shared'] as const) {
      const first = lock.acquireSync('key', { mode });
      const waiting = watch(lock.acquire('key'));
      await delay(60);
      expect(waiting.state).toBe('pending');
      first.release();
      (await waiting.promise).release();
    }
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0, timeouts: 0 });
  });

  it('is not refused: in a circle in which one waits on its event loop, and can still release', async () => {
    const lock = newLock();
    const [a, b] = keysApart(lock, 2) as [string, string];
    const agent = await Agent.start(lock);
    const theirs = await agent.acquireSync(b);
    const ours = lock.acquireSync(a);
    const waiting = watch(lock.acquire(b));
    const blocked = watch(agent.acquireSync(a));
    await until(() => lock.stats().waiting === 2, 'both wait');
    // Some slices, at the end of each of which the blocked thread looks for a circle.
    await delay(100);
    expect([waiting.state, blocked.state]).toEqual(['pending', 'pending']);
    ours.release();
    await (await blocked.promise).release();
    await theirs.release();
    (await waiting.promise).release();
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0 });
  });

  it('is not refused: on a chain of blocked threads whose last is free to go on', async () => {
    const lock = newLock();
    const keys = keysApart(lock, 4);
    const agents = await Promise.all(keys.slice(1).map(() => Agent.start(lock)));
    const ours = lock.acquireSync(keys[0]!);
    const own = await Promise.all(agents.map((agent, i) => agent.acquireSync(keys[i + 1]!)));
    const waiting = agents.map((agent, i) => watch(agent.acquireSync(keys[i]!)));
    await until(() => lock.stats().waiting === agents.length, 'all are blocked');
    await delay(100);
    expect(waiting.map(({ state }) => state)).toEqual(['pending', 'pending', 'pending']);
    ours.release();
    for (const [i, { promise }] of waiting.entries()) {
      await (await promise).release();
      await own[i]!.release();
    }
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0 });
  });

  it('is not refused: for what is granted, but not delivered, to another blocked thread', async () => {
    const lock = newLock();
    const [a, b] = keysApart(lock, 2) as [string, string];
    const [one, two] = await Promise.all([Agent.start(lock), Agent.start(lock)]);
    const ours = lock.acquireSync(a);
    const alsoOurs = lock.acquireSync(b);
    const pending = watch(one.acquire(a));
    await until(() => lock.stats().waiting === 1, 'it is pending');
    const blocked = watch(one.acquireSync(b));
    await until(() => lock.stats().waiting === 2, 'its thread is blocked');
    const behind = watch(two.acquireSync(a));
    await until(() => lock.stats().waiting === 3, 'another waits behind it');
    ours.release();
    // The pending one cannot use the key while its thread is blocked, so it does not keep it from the other.
    const theirs = await behind.promise;
    await turns();
    expect([pending.state, blocked.state]).toEqual(['pending', 'pending']);
    await theirs.release();
    alsoOurs.release();
    await (await blocked.promise).release();
    await (await pending.promise).release();
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0 });
  });

  it('is never refused in random work that goes up in a fixed order, mixing sync and async', async () => {
    const seed = seedFor('work in a fixed order');
    const lock = new StripedLock({ engine: 'native', stripes: 16, timeout: 30_000 });
    const keys = keysApart(lock, 8);
    const cells = new SharedArrayBuffer(4 * keys.length);
    const gate = new SharedArrayBuffer(4);
    const threads = 4;
    interface Work {
      readonly added: number[];
      readonly acquisitions: number;
      readonly changed: number;
      readonly failures: unknown[];
    }
    const results = await runThreads<Work>(
      'ordered.mjs',
      Array.from({ length: threads }, (_, i) => ({
        handle: lock.handle,
        cells,
        gate,
        threads,
        keys,
        milliseconds: 2500,
        seed: seed + i,
      })),
    );
    expect(results.flatMap(({ failures }) => failures)).toEqual([]);
    expect(results.map(({ changed }) => changed)).toEqual([0, 0, 0, 0]);
    const expected = keys.map((_, i) => results.reduce((sum, { added }) => sum + added[i]!, 0));
    expect([...new Int32Array(cells)]).toEqual(expected);
    const total = results.reduce((sum, { acquisitions }) => sum + acquisitions, 0);
    const stats = lock.stats();
    console.log(`${total} acquisitions in a fixed order, ${stats.contended} of them waited`);
    expect(stats.contended).toBeGreaterThan(total / 100);
    expect(stats).toMatchObject({ held: 0, waiting: 0, deadlocks: 0, timeouts: 0 });
    expect(lock.tryAcquire(keys)).toBeDefined();
  });
});
