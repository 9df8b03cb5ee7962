import { threadId } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { KeyedLock, type KeyedLockOptions, type LockKey, type StripedLock } from 'stripelock';
import { Agent } from '../support/agent.js';
import type { EngineUnderTest } from '../support/engine.js';
import { seedFor } from '../support/seed.js';
import { runThreads } from '../support/threads.js';
import { rejectionOf, thrownBy, turns, until, watch } from '../support/waiting.js';

const FOR_EVER = { timeout: Infinity } as const;

export const permitsSuite = (engine: EngineUnderTest): void => {
  const makeLock = (limit?: number, options?: KeyedLockOptions): KeyedLock =>
    new KeyedLock({ engine: engine.name, ...(limit === undefined ? {} : { limit }), ...options });
  const agentOf = (lock: KeyedLock): Promise<Agent> => Agent.start(lock as unknown as StripedLock);
  /** All that can be had of a key at once. */
  const fill = (lock: KeyedLock, key: LockKey): { release(): void }[] =>
    Array.from({ length: lock.limit }, () => {
      const guard = lock.tryAcquire(key);
      expect(guard).toBeDefined();
      return guard!;
    });

  describe('a lock with a limit', () => {
    engine.acrossThreads(
      'admits as many holders of a key as that, in one thread and in several, and no more',
      async () => {
        const lock = makeLock(5);
        const [a, b] = await Promise.all([agentOf(lock), agentOf(lock)]);
        const guards = [
          lock.acquireSync('key'),
          await lock.acquire('key', { mode: 'exclusive' }),
          lock.tryAcquire('key')!,
          await a.acquireSync('key'),
          await b.acquire('key'),
        ];
        expect(guards.map((guard) => guard.mode)).toEqual(Array(5).fill('exclusive'));
        expect(lock.tryAcquire('key')).toBeUndefined();
        expect(await a.tryAcquire('key')).toBeUndefined();
        lock.acquireSync('other').release();
        for (const guard of guards) {
          await guard.release();
          const next = lock.tryAcquire('key')!;
          expect(await b.tryAcquire('key')).toBeUndefined();
          next.release();
          await (await b.acquireSync('key', { timeout: 0 })).release();
          guards.push(lock.acquireSync('key'));
          if (guards.length === 10) break;
        }
        for (const guard of guards.slice(5)) await guard.release();
        expect(lock.size).toBe(0);
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, contended: 0 });
      },
    );

    it('reports how many permits are left', async () => {
      const lock = makeLock(3);
      const free = { free: true, mode: undefined, holders: 0, waiters: 0, permitsLeft: 3 };
      expect(lock.stateOf('key')).toEqual(free);
      const guards = fill(lock, 'key');
      const waiting = lock.acquire('key');
      const none = { free: false, mode: 'exclusive', holders: 3, permitsLeft: 0 };
      expect(lock.stateOf('key')).toEqual({ ...none, waiters: 1 });
      expect(lock.isLocked('key')).toBe(true);
      guards[0]!.release();
      const next = await waiting;
      expect(lock.stateOf('key')).toEqual({ ...none, waiters: 0 });
      next.release();
      expect(lock.stateOf('key')).toEqual({ ...none, free: true, holders: 2, waiters: 0, permitsLeft: 1 });
      expect(lock.isLocked('key')).toBe(false);
      guards[1]!.release();
      guards[2]!.release();
      expect(lock.stateOf('key')).toEqual(free);
    });

    it('is an exclusive lock without one, or with 1, and knows shared holders then', () => {
      for (const lock of [makeLock(), makeLock(1)]) {
        expect(lock.limit).toBe(1);
        const guard = lock.acquireSync('key');
        expect(lock.tryAcquire('key')).toBeUndefined();
        guard.release();
        const readers = [1, 2, 3].map(() => lock.acquireSync('key', { mode: 'shared' }));
        expect(readers.map(({ mode }) => mode)).toEqual(['shared', 'shared', 'shared']);
        for (const reader of readers) reader.release();
      }
    });

    it('refuses the shared mode, and takes nothing', async () => {
      const lock = makeLock(2);
      const refused = { name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' };
      const shared = { mode: 'shared' } as const;
      for (const keys of ['key', ['key'], ['a', 'key']]) {
        expect(thrownBy(() => lock.acquireSync(keys, shared))).toMatchObject(refused);
        expect(thrownBy(() => lock.tryAcquire(keys, shared))).toMatchObject(refused);
        expect(await rejectionOf(lock.acquire(keys, shared))).toMatchObject(refused);
        expect(await rejectionOf(lock.withLock(keys, shared, () => 1))).toMatchObject(refused);
        expect(thrownBy(() => lock.withLockSync(keys, shared, () => 1))).toMatchObject(refused);
      }
      expect(thrownBy(() => lock.acquireSync('key', { mode: 'other' as never }))).toMatchObject(refused);
      expect(String(thrownBy(() => lock.acquireSync('key', shared)))).toContain('limit');
      expect(lock.size).toBe(0);
    });

    it('has its limit wherever it is opened, and refuses an invalid limit', () => {
      const lock = makeLock(3, { name: 'few', timeout: 7 });
      const again = KeyedLock.from(structuredClone(lock.handle));
      expect(again).toMatchObject({ limit: 3, name: 'few', timeout: 7, capacity: 65_536 });
      const guards = fill(again, 1);
      expect(guards).toHaveLength(3);
      expect(lock.tryAcquire(1)).toBeUndefined();
      for (const limit of [0, -1, 1.5, NaN, Infinity, 1_048_577, 2 ** 32 + 2]) {
        expect(
          thrownBy(() => makeLock(limit)),
          String(limit),
        ).toMatchObject({
          name: 'RangeError',
          code: 'ERR_OUT_OF_RANGE',
        });
        const forged = { ...lock.handle, limit };
        expect(thrownBy(() => KeyedLock.from(forged))).toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
      }
      for (const limit of ['2', null, {}, 2n, true]) {
        const refused = { name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' };
        expect(thrownBy(() => makeLock(limit as number))).toMatchObject(refused);
        expect(thrownBy(() => KeyedLock.from({ ...lock.handle, limit }))).toMatchObject(refused);
      }
      for (const limit of [1, 2, 4]) {
        const forged = { ...lock.handle, limit };
        expect(thrownBy(() => KeyedLock.from(forged))).toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
      }
      makeLock(1_048_576).acquireSync('key').release();
    });

    it('grants a permit to the longest waiter whenever a holder releases', async () => {
      const lock = makeLock(3);
      const guards = fill(lock, 'key');
      const waiting = Array.from({ length: 5 }, () => watch(lock.acquire('key', FOR_EVER)));
      await turns();
      const states = (): string[] => waiting.map(({ state }) => state);
      expect(states()).toEqual(Array(5).fill('pending'));
      expect(lock.stats().waiting).toBe(5);
      for (let i = 0; i < 5; i++) {
        if (i < 3) guards[i]!.release();
        else (await waiting[i - 3]!.promise).release();
        await waiting[i]!.promise;
        await turns();
        expect(states().slice(i + 1)).toEqual(Array(4 - i).fill('pending'));
        expect(lock.tryAcquire('key')).toBeUndefined();
      }
      for (const { promise } of waiting.slice(2)) (await promise).release();
      expect(lock.size).toBe(0);
      expect(lock.inspect()).toEqual([]);
    });

    engine.acrossThreads(
      'wakes blocked threads and event loops, each by one of several releases in another thread',
      async () => {
        const lock = makeLock(3);
        const agents = await Promise.all(Array.from({ length: 4 }, () => agentOf(lock)));
        const holders = [await agents[0]!.acquireSync('key'), await agents[0]!.acquireSync('key')];
        holders.push(await agents[0]!.acquireSync('key'));
        const waits = [
          watch(agents[1]!.acquireSync('key', FOR_EVER)),
          watch(agents[2]!.acquire('key', FOR_EVER)),
          watch(agents[3]!.acquireSync('key', FOR_EVER)),
        ];
        await until(() => lock.stats().waiting === 3, 'all wait');
        for (let released = 1; released <= 3; released++) {
          await holders[released - 1]!.release();
          const granted = (): number => waits.filter(({ state }) => state === 'fulfilled').length;
          await until(() => granted() === released, `${released} are granted`);
          await turns();
          expect(granted()).toBe(released);
        }
        expect(lock.stats()).toMatchObject({ held: 1, waiting: 0 });
        for (const { promise } of waits) await (await promise).release();
        expect(lock.size).toBe(0);
      },
    );

    it('takes one permit of each of several keys, all or none', async () => {
      const lock = makeLock(2);
      const guard = lock.acquireSync(['b', 'a', 'b', 'c']);
      expect(lock.tryAcquire(['a', 'b'])).toBeDefined();
      expect(lock.tryAcquire(['c', 'b', 'd'])).toBeUndefined();
      lock.tryAcquire(['c', 'd'])!.release();
      expect(thrownBy(() => lock.acquireSync(['c', 'a'], { timeout: 0 }))).toMatchObject({
        code: 'ERR_LOCK_TIMEOUT',
        keys: ['c', 'a'],
        holders: [threadId],
      });
      const waiting = watch(lock.acquire(['d', 'c', 'a'], FOR_EVER));
      const abort = new AbortController();
      const aborted = watch(lock.acquire(['d', 'b'], { signal: abort.signal, timeout: Infinity }));
      await turns();
      abort.abort();
      await rejectionOf(aborted.promise);
      expect(waiting.state).toBe('pending');
      guard.release();
      (await waiting.promise).release();
      expect(lock.inspect().map(({ key }) => key)).toEqual(expect.arrayContaining(['a', 'b']));
      expect(lock.stats()).toMatchObject({ held: 2, waiting: 0, aborts: 1 });
    });

    it('refuses a thread that would block for a key of which it has all permits', () => {
      const lock = makeLock(2, FOR_EVER);
      const guards = fill(lock, 'key');
      const refusal = { code: 'ERR_LOCK_DEADLOCK', threads: [threadId] };
      expect(thrownBy(() => lock.acquireSync('key'))).toMatchObject(refusal);
      expect(thrownBy(() => lock.acquireSync(['free', 'key']))).toMatchObject(refusal);
      expect(lock.stats()).toMatchObject({ held: 1, deadlocks: 2 });
      for (const guard of guards) guard.release();
    });

    engine.acrossThreads('lets a thread block for a key of which another one has a permit', async () => {
      const lock = makeLock(2, FOR_EVER);
      const other = await agentOf(lock);
      const ours = lock.acquireSync('key');
      const theirs = await other.acquireSync('key');
      // The other thread may release, and then it does.
      expect(thrownBy(() => lock.acquireSync('key', { timeout: 60 }))).toMatchObject({
        code: 'ERR_LOCK_TIMEOUT',
      });
      void other.releaseAfter(theirs, 100);
      const second = lock.acquireSync('key');
      second.release();
      ours.release();
      expect(lock.size).toBe(0);
    });

    it('shows each permit, and counts keys as held', async () => {
      const lock = makeLock(3, { trace: true });
      const guards = [lock.acquireSync('key'), lock.acquireSync(['key', 'more']), lock.acquireSync('key')];
      const waiting = lock.acquire('key', FOR_EVER);
      await turns();
      const shown = lock.inspect().find(({ key }) => key === 'key')!;
      expect(shown.mode).toBe('exclusive');
      expect(shown.waiters).toMatchObject([{ threadId, kind: 'async', mode: 'exclusive', keys: ['key'] }]);
      expect(shown.holders.map(({ keys }) => keys)).toEqual([['key'], ['key', 'more'], ['key']]);
      expect(shown.holders.map((holder) => holder.threadId)).toEqual(Array(3).fill(threadId));
      expect(lock.stats().held).toBe(2);
      for (const guard of guards) guard.release();
      (await waiting).release();
      expect(lock.inspect()).toEqual([]);
    });

    engine.acrossThreads('shows the permits of another thread', async () => {
      const lock = makeLock(2);
      const other = await agentOf(lock);
      const guard = lock.acquireSync('key');
      const theirs = await other.acquireSync('key');
      const [shown] = lock.inspect();
      expect(new Set(shown!.holders.map((holder) => holder.threadId))).toEqual(
        new Set([threadId, other.threadId]),
      );
      guard.release();
      await theirs.release();
    });

    const mixes: [manners: string[], limit: number, keys: number, mostKeys: number][] = [
      [['sync', 'sync', 'sync', 'sync'], 2, 1, 1],
      [['sync', 'sync', 'sync', 'sync', 'sync'], 3, 3, 3],
      [['async', 'async', 'async', 'async'], 2, 1, 1],
      [['keeping', 'async', 'keeping', 'async'], 3, 3, 2],
      [['sync', 'async', 'sync', 'keeping'], 2, 1, 1],
      [['mixed', 'mixed', 'mixed', 'mixed'], 2, 1, 1],
      [['mixed', 'sync', 'async', 'keeping'], 3, 4, 3],
    ];
    for (const [manners, limit, keys, mostKeys] of mixes) {
      const what = `${manners.join(', ')}: ${limit} permits of ${keys} keys, up to ${mostKeys} at once`;
      engine.acrossThreads(`never has more holders, and loses no call: ${what}`, async () => {
        const seed = seedFor(what);
        const lock = makeLock(limit, FOR_EVER);
        const cells = new SharedArrayBuffer(4 * keys);
        const gate = new SharedArrayBuffer(4);
        const common = { handle: lock.handle, cells, gate, threads: manners.length, keys, mostKeys };
        const tooMany = await runThreads<number>(
          'permits.mjs',
          manners.map((manner, i) => ({ ...common, manner, rounds: 800, calledOnly: true, seed: seed + i })),
        );
        expect(tooMany).toEqual(manners.map(() => 0));
        expect(new Int32Array(cells)).toEqual(new Int32Array(keys));
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0 });
        expect(lock.size).toBe(0);
        for (let key = 0; key < keys; key++) {
          const guards = fill(lock, key);
          expect(lock.tryAcquire(key)).toBeUndefined();
          for (const guard of guards) guard.release();
        }
      });
    }
  });
};
