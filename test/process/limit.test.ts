import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LockTimeoutError } from 'stripelock';
import { LockedFile } from 'stripelock/file';
import { ProcessLock, type ProcessLockOptions } from 'stripelock/process';
import { rejectionOf, thrownBy, until, watch } from '../support/waiting.js';
import { lockPath, Peer, type Got } from './peer.js';

const TORTURE = fileURLToPath(new URL('../programs/process-limit-torture.mjs', import.meta.url));
/** Milliseconds: far more than a wake takes, and far less than the 250 ms after which a process looks that was not woken. */
const WOKEN = 60;
/** On a busy machine a process may be too late in some rounds. */
const ROUNDS = 10;

function makeLock(options: ProcessLockOptions): ProcessLock {
  const lock = new ProcessLock({ timeout: 20_000, ...options });
  onTestFinished(() => lock.close());
  return lock;
}

async function setUp(limit: number, peers: number): Promise<{ lock: ProcessLock; all: Peer[] }> {
  const lock = makeLock({ path: lockPath(), limit });
  const all = Array.from({ length: peers }, () => Peer.start(lock.path, undefined, limit));
  return { lock, all: await Promise.all(all) };
}

const waitersOf = (lock: ProcessLock, key: string): number => lock.stateOf(key).waiters;

describe('a lock with a limit', () => {
  it('has that many holders of each key, in all processes together', async () => {
    const { lock, all } = await setUp(3, 2);
    const [one, two] = all as [Peer, Peer];
    expect(lock.limit).toBe(3);
    expect(lock.stateOf('a')).toEqual({
      free: true,
      mode: undefined,
      holders: 0,
      waiters: 0,
      permitsLeft: 3,
    });
    const guard = lock.tryAcquire('a');
    expect(guard).toMatchObject({ held: true, mode: 'exclusive', abandoned: false });
    expect(await one.ask<Got>('tryAcquire', 'a')).toBeDefined();
    expect(lock.stateOf('a')).toMatchObject({ free: true, mode: 'exclusive', holders: 2, permitsLeft: 1 });
    expect(lock.isLocked('a')).toBe(false);
    expect(await two.ask<Got>('acquireSync', 'a')).toBeDefined();
    expect(lock.stateOf('a')).toMatchObject({ free: false, holders: 3, permitsLeft: 0 });
    expect(lock.isLocked('a')).toBe(true);
    expect(lock.tryAcquire('a')).toBeUndefined();
    for (const peer of all) expect(await peer.ask<unknown>('tryAcquire', 'a')).toBeUndefined();
    expect(lock.tryAcquire('b')?.held).toBe(true);
    const state = lock.inspect().find(({ key }) => key === 'a')!;
    expect(state).toMatchObject({ mode: 'exclusive', waiters: [] });
    expect(state.holders.map(({ pid }) => pid).sort()).toEqual([process.pid, one.pid, two.pid].sort());
    guard!.release();
    expect(await one.ask<Got>('tryAcquire', 'a')).toBeDefined();
    expect(lock.tryAcquire('a')).toBeUndefined();
    expect(lock.stateOf('a')).toMatchObject({ holders: 3 });
    await one.ask('releaseAll');
    expect(lock.stateOf('a')).toMatchObject({ holders: 1, permitsLeft: 2 });
  });

  it('gives one thread several permits, and takes several keys at once, or none', async () => {
    const { lock, all } = await setUp(2, 1);
    const guards = [lock.acquireSync('a'), await lock.acquire('a')];
    expect(lock.tryAcquire(['b', 'a'])).toBeUndefined();
    expect(lock.stateOf('b')).toMatchObject({ holders: 0, permitsLeft: 2 });
    expect(lock.inspect()).toMatchObject([
      { key: 'a', holders: [{ pid: process.pid }, { pid: process.pid }] },
    ]);
    guards.pop()!.release();
    const both = lock.tryAcquire(['b', 'a']);
    expect(both?.keys).toEqual(['b', 'a']);
    expect(await all[0]!.ask<Got>('tryAcquire', 'b')).toBeDefined();
    expect(await all[0]!.ask<unknown>('tryAcquire', 'a')).toBeUndefined();
    const waits = all[0]!.ask<Got>('acquire', ['a', 'b']);
    await until(() => waitersOf(lock, 'a') + waitersOf(lock, 'b') > 0, 'it waits');
    both!.release();
    await waits;
  });

  it.each(['acquire', 'acquireSync'])('wakes %s of another process when a permit is free', async (method) => {
    const { lock, all } = await setUp(2, 2);
    const [holder, waiter] = all as [Peer, Peer];
    const own = lock.acquireSync('a');
    await holder.ask('acquire', 'a');
    let prompt = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const waits = watch(waiter.ask<Got>(method, 'a'));
      await until(() => waitersOf(lock, 'a') === 1, 'one waits');
      await holder.ask('releaseAll');
      await sleep(WOKEN);
      if (waits.state === 'fulfilled') prompt++;
      await waits.promise;
      await waiter.ask('releaseAll');
      await holder.ask('acquire', 'a');
    }
    own.release();
    expect(prompt).toBeGreaterThanOrEqual(ROUNDS / 2);
  });

  it('wakes one process for each permit, if several are free at once', async () => {
    const { lock, all } = await setUp(3, 3);
    let prompt = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const guards = Array.from({ length: 3 }, () => lock.acquireSync('a'));
      const waits = [];
      for (const peer of all) {
        waits.push(watch(peer.ask<Got>('acquire', 'a')));
        await until(() => waitersOf(lock, 'a') === waits.length, 'it waits');
      }
      for (const guard of guards) guard.release();
      await sleep(WOKEN);
      if (waits.every(({ state }) => state === 'fulfilled')) prompt++;
      await Promise.all(waits.map(({ promise }) => promise));
      await Promise.all(all.map((peer) => peer.ask('releaseAll')));
    }
    expect(prompt).toBeGreaterThanOrEqual(ROUNDS / 2);
  });

  it('serves a process that waits while others take and release permits without a gap', async () => {
    const { lock, all } = await setUp(2, 3);
    let busy = true;
    const counts = Promise.all(all.map((peer) => peer.ask<number>('hammer', 'a', 2000, 'sync')));
    void counts.finally(() => (busy = false));
    let served = 0;
    for (; busy; served++) {
      (await lock.acquire('a')).release();
      // A loop of microtasks alone would not see the answers.
      await sleep(0);
    }
    expect(served).toBeGreaterThan(1);
    expect(Math.min(...(await counts))).toBeGreaterThan(0);
  });

  it('frees the permit of a killed process, and reports the death to the next holder', async () => {
    const { lock, all } = await setUp(3, 2);
    const [victim, other] = all as [Peer, Peer];
    lock.acquireSync('a');
    await victim.ask('acquire', 'a');
    await other.ask('acquire', 'a');
    const waits = lock.acquire('a');
    await until(() => waitersOf(lock, 'a') === 1, 'one waits');
    await victim.kill();
    expect(await waits).toMatchObject({ abandoned: true });
    await other.ask('releaseAll');
    expect(lock.tryAcquire('a')).toMatchObject({ abandoned: false });
  });

  it('reports a death although other permits are free', async () => {
    const { lock, all } = await setUp(8, 1);
    const guards = [lock.acquireSync('a'), lock.acquireSync('a')];
    await all[0]!.ask('acquire', 'a');
    for (const guard of guards) guard.release();
    await all[0]!.kill();
    expect(lock.stateOf('a')).toMatchObject({ holders: 0, permitsLeft: 8 });
    expect([lock.tryAcquire('a')!.abandoned, lock.tryAcquire('a')!.abandoned]).toEqual([true, false]);
  });

  it('frees the permit of a thread that ended, and reports the death to the next holder', async () => {
    const { lock, all } = await setUp(2, 1);
    lock.acquireSync('a');
    await all[0]!.ask('holdInThread', 'a');
    expect(lock.tryAcquire('a')).toBeUndefined();
    const waits = lock.acquire('a');
    await all[0]!.ask('endThreads');
    expect(await waits).toMatchObject({ abandoned: true });
  });

  it('refuses to wait for itself only if it has all permits', async () => {
    const { lock, all } = await setUp(2, 1);
    const guards = [lock.acquireSync('a')];
    await all[0]!.ask('acquire', 'a');
    // The other process may release.
    expect(thrownBy(() => lock.acquireSync('a', { timeout: 100 }))).toBeInstanceOf(LockTimeoutError);
    await all[0]!.ask('releaseAll');
    guards.push(lock.acquireSync('a'));
    expect(thrownBy(() => lock.acquireSync('a'))).toMatchObject({ code: 'ERR_LOCK_DEADLOCK' });
    for (const guard of guards) guard.release();
  });

  it('names its holders when a wait ends at its deadline', async () => {
    const { lock, all } = await setUp(2, 2);
    await Promise.all(all.map((peer) => peer.ask('acquire', 'a')));
    const error = await rejectionOf(lock.acquire('a', { timeout: 20 }));
    for (const { pid } of all) expect(String(error)).toContain(`process ${pid}`);
  });

  it('issues tokens that rise', async () => {
    const { lock, all } = await setUp(2, 1);
    const first = lock.acquireSync('a');
    const { token } = first;
    const second = BigInt((await all[0]!.ask<Got>('acquire', 'a')).token);
    expect(second).toBeGreaterThan(token);
    first.release();
    expect(lock.acquireSync('a').token).toBeGreaterThan(second);
  });

  it('has no shared mode', async () => {
    const { lock } = await setUp(2, 0);
    const refused = { code: 'ERR_INVALID_ARG_TYPE', message: expect.stringContaining('limit') as string };
    const shared = { mode: 'shared' } as const;
    expect(thrownBy(() => lock.tryAcquire('a', shared))).toMatchObject(refused);
    expect(thrownBy(() => lock.acquireSync('a', shared))).toMatchObject(refused);
    await expect(lock.acquire('a', shared)).rejects.toMatchObject(refused);
    expect(lock.stateOf('a').holders).toBe(0);
  });

  it('cannot lock the updates of a file', () => {
    const lock = makeLock({ path: lockPath(), limit: 2 });
    expect(thrownBy(() => new LockedFile(`${lock.path}.json`, { lock }))).toMatchObject({
      code: 'ERR_OUT_OF_RANGE',
      message: expect.stringContaining('options.lock.limit must be 1') as string,
    });
  });

  it('admits 256 holders, and no more', () => {
    const lock = makeLock({ path: lockPath(), limit: 256 });
    const guards = Array.from({ length: 256 }, () => lock.tryAcquire('a'));
    expect(guards.every((guard) => guard?.held)).toBe(true);
    const other = makeLock({ path: lock.path, limit: 256 });
    expect(other.tryAcquire('a')).toBeUndefined();
    guards[7]!.release();
    expect(other.tryAcquire('a')?.held).toBe(true);
    for (const limit of [0, 257, 1.5, NaN]) {
      expect(() => new ProcessLock({ path: lockPath(), limit })).toThrow(RangeError);
    }
    expect(() => new ProcessLock({ path: lockPath(), limit: '4' as never })).toThrow(TypeError);
  });
});

describe('the limit of a file is the one of its creator: another one is refused', () => {
  const refused = (limit: number): object => ({
    code: 'ERR_LOCK_FILE_LIMIT',
    message: expect.stringContaining(`it was created with \`limit: ${limit}\``) as string,
  });

  it.each([
    [4, [undefined, 1, 2, 5]],
    [undefined, [2, 4]],
  ])('%s, and then one of %j', async (limit, others) => {
    const file = lockPath();
    const open = (wanted: number | undefined): ProcessLock =>
      new ProcessLock(wanted === undefined ? { path: file } : { path: file, limit: wanted });
    const lock = open(limit);
    for (const other of others) {
      expect(thrownBy(() => open(other))).toMatchObject(refused(limit ?? 1));
      await expect(Peer.start(file, undefined, other)).rejects.toMatchObject(refused(limit ?? 1));
    }
    // The first one still works, and so does another process with its limit.
    expect(lock.tryAcquire('a')?.held).toBe(true);
    await Peer.start(file, undefined, limit);
    await lock.close();
    for (const other of others) expect(thrownBy(() => open(other))).toMatchObject(refused(limit ?? 1));
  });
});

it.runIf(process.platform !== 'win32')(
  'no more processes and threads than the limit hold a key, also when some of them are killed',
  { timeout: 120_000 },
  async () => {
    const folder = path.dirname(lockPath());
    writeFileSync(path.join(folder, 'counted'), '');
    const limit = 3;
    const seed = Date.now() % 1_000_000;
    const start = (index: number, rounds: number): { child: ChildProcess; ended: Promise<unknown[]> } => {
      const child = fork(TORTURE, [folder, String(limit), String(rounds), String(seed + 10 * index)]);
      onTestFinished(() => void child.kill('SIGKILL'));
      return { child, ended: once(child, 'exit') };
    };
    let running = true;
    const steady = Promise.all([0, 1, 2].map((index) => start(index, 500).ended));
    void steady.finally(() => (running = false));
    for (let index = 3; running; index++) {
      const victim = start(index, 0);
      await Promise.race([steady, victim.ended, sleep(150 + ((seed * index) % 100))]);
      victim.child.kill('SIGKILL');
      expect(await victim.ended, `seed ${seed}`).toEqual([null, 'SIGKILL']);
    }
    for (const ending of await steady) expect(ending, `seed ${seed}`).toEqual([0, null]);
  },
);
