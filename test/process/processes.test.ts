import { spawn } from 'node:child_process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ProcessLock, type ProcessKeyState } from 'stripelock/process';
import { until } from '../support/waiting.js';
import { lockPath, Peer, type Got } from './peer.js';

async function setUp(peers: number): Promise<{ lock: ProcessLock; all: Peer[] }> {
  const file = lockPath();
  const lock = new ProcessLock({ path: file, timeout: 20_000 });
  onTestFinished(() => lock.close());
  return { lock, all: await Promise.all(Array.from({ length: peers }, () => Peer.start(file))) };
}

describe('between processes', () => {
  it('a key has one holder, or several that share it', async () => {
    const { lock, all } = await setUp(2);
    const [one, two] = all as [Peer, Peer];
    expect(await one.ask<Got>('tryAcquire', 'a')).toBeDefined();
    expect(await two.ask<unknown>('tryAcquire', 'a')).toBeUndefined();
    expect(lock.tryAcquire('a')).toBeUndefined();
    expect(lock.tryAcquire(['b', 'a'])).toBeUndefined();
    expect(lock.tryAcquire('b')?.held).toBe(true);
    await one.ask('releaseAll');
    expect(await two.ask<Got>('tryAcquire', 'a', { mode: 'shared' })).toBeDefined();
    expect(lock.tryAcquire('a', { mode: 'shared' })?.held).toBe(true);
    expect(await one.ask<unknown>('tryAcquire', 'a')).toBeUndefined();
  });

  it('waiters of both kinds continue after a release', async () => {
    const { lock, all } = await setUp(2);
    const guard = lock.acquireSync('a');
    const waits = [all[0]!.ask<Got>('acquire', 'a'), all[1]!.ask<Got>('acquireSync', 'a')];
    await until(() => lock.stateOf('a').waiters === 2, 'both wait');
    const seen = lock.inspect();
    expect(seen).toMatchObject([{ key: 'a', mode: 'exclusive', holders: [{ pid: process.pid }] }]);
    expect(seen[0]!.waiters.map(({ pid }) => pid).sort()).toEqual(all.map(({ pid }) => pid).sort());
    expect(seen[0]!.waiters[0]!.title).toMatch(/process-lock-peer/);
    guard.release();
    await Promise.race(waits);
    await Promise.all(all.map((peer) => peer.ask('releaseAll')));
    const [first, second] = await Promise.all(waits);
    expect(first!.token).not.toBe(second!.token);
  });

  it('the death of a holder frees its keys, and the next holder sees it', async () => {
    const { lock, all } = await setUp(2);
    const [victim, other] = all as [Peer, Peer];
    await victim.ask('acquire', ['a', 'b']);
    await victim.ask('acquire', 'c', { mode: 'shared' });
    const blocked = other.ask<Got>('acquireSync', 'a');
    const pending = lock.acquire('b');
    await until(() => lock.stateOf('a').waiters === 1, 'the other one waits');
    await victim.kill();
    expect(await blocked).toMatchObject({ abandoned: true });
    expect(await pending).toMatchObject({ abandoned: true });
    expect(lock.tryAcquire('c')).toMatchObject({ abandoned: false });
    await other.ask('releaseAll');
    expect(lock.tryAcquire('a')).toMatchObject({ abandoned: false });
  });

  it('the death of a holder is reported to all that share the key next, and to the first exclusive holder', async () => {
    const { lock, all } = await setUp(2);
    const [victim, other] = all as [Peer, Peer];
    await victim.ask('acquire', 'a');
    await victim.kill();
    const readers = [lock.tryAcquire('a', { mode: 'shared' }), lock.tryAcquire('a', { mode: 'shared' })];
    for (const reader of readers) expect(reader).toMatchObject({ abandoned: true });
    expect(await other.ask<Got>('tryAcquire', 'a', { mode: 'shared' })).toMatchObject({ abandoned: true });
    for (const reader of readers) reader?.release();
    await other.ask('releaseAll');
    for (const abandoned of [true, false]) {
      const guard = lock.tryAcquire('a');
      expect(guard).toMatchObject({ abandoned });
      guard?.release();
    }
  });

  it('the death of a waiter, or a stopped waiter, does not delay others', async () => {
    const { lock, all } = await setUp(3);
    const [victim, stopped, other] = all as [Peer, Peer, Peer];
    const guard = lock.acquireSync('a');
    const waits = stopped.ask<Got>('acquire', 'a');
    void victim.ask('acquire', 'a').catch(() => undefined);
    await until(() => lock.stateOf('a').waiters === 2, 'two wait');
    const last = other.ask<Got>('acquire', 'a');
    await until(() => lock.stateOf('a').waiters === 3, 'three wait');
    stopped.child.kill('SIGSTOP');
    await victim.kill();
    guard.release();
    await last;
    stopped.child.kill('SIGCONT');
    await other.ask('releaseAll');
    expect(await waits).toMatchObject({ abandoned: false });
  });

  it('the end of a thread of another process is reported', async () => {
    const { lock, all } = await setUp(1);
    await all[0]!.ask('holdInThread', 'a');
    expect(lock.tryAcquire('a')).toBeUndefined();
    const pending = lock.acquire('a');
    await all[0]!.ask('endThreads');
    expect(await pending).toMatchObject({ abandoned: true });
  });

  it('a blocked event loop gives back what it was granted', async () => {
    const { lock, all } = await setUp(2);
    const [busy, other] = all as [Peer, Peer];
    const guard = lock.acquireSync('a');
    await busy.ask('acquireAndBlock', 'a', 3000);
    await until(() => lock.stateOf('a').waiters === 1, 'one waits');
    const waits = other.ask<Got>('acquire', 'a');
    await until(() => lock.stateOf('a').waiters === 2, 'two wait');
    const start = performance.now();
    guard.release();
    await waits;
    expect(performance.now() - start).toBeLessThan(2500);
    await other.ask('releaseAll');
    // It gets it when it looks again.
    await until(
      () => lock.inspect().some(({ holders }) => holders.some(({ pid }) => pid === busy.pid)),
      'it has it',
    );
    await busy.ask('releaseAll');
    (await lock.acquire('a')).release();
  });

  it('a child inherits nothing', async () => {
    const { lock, all } = await setUp(1);
    const guard = lock.acquireSync('a');
    const child = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60000)'], { stdio: 'ignore' });
    onTestFinished(() => void child.kill('SIGKILL'));
    await new Promise((resolve) => child.once('spawn', resolve));
    guard.release();
    expect(await all[0]!.ask<Got>('tryAcquire', 'a')).toBeDefined();
  });

  it('each gets its share of a key that all want', async () => {
    const { all } = await setUp(4);
    const counts = await Promise.all(all.map((peer) => peer.ask<number>('hammer', 'a', 1500, 'sync')));
    const mean = counts.reduce((a, b) => a + b) / counts.length;
    // A turn is 1 ms or so: each has hundreds. A process that never got one would have none.
    for (const count of counts) expect(count, String(counts)).toBeGreaterThan(mean / 4);
  });

  it('all are shown by inspect(), and what is released is not', async () => {
    const { lock, all } = await setUp(1);
    await all[0]!.ask('acquire', ['a', 7]);
    const keys = (): unknown[] => lock.inspect().map(({ key }) => key);
    expect(new Set(keys())).toEqual(new Set(['a', 7]));
    lock.acquireSync('b', { mode: 'shared' });
    const theirs = await all[0]!.ask<ProcessKeyState[]>('inspect');
    expect(theirs.find(({ key }) => key === 'b')).toMatchObject({
      mode: 'shared',
      holders: [{ pid: process.pid }],
    });
    await all[0]!.ask('releaseAll');
    expect(keys()).toEqual(['b']);
  });
});
