import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { StripedLock } from 'stripelock';
import type { ProcessGuard, ProcessLock } from 'stripelock/process';
import { Agent } from '../support/agent.js';
import { until, watch } from '../support/waiting.js';
import { ProcessUnderTest } from '../workers/process-under-test.mjs';
import { lockPath, Peer, type Got } from './peer.js';

/** Milliseconds: more than the 1 ms in which newcomers may pass a waiter. */
const NOT_PASSED = 5;
/** Milliseconds: far more than a wake takes, and far less than the 250 ms after which a process looks that was not woken. */
const WOKEN = 60;
/** On a busy machine a process may be too late in some rounds. Without what a test is about, none or one of them counts. */
const ROUNDS = 10;
const MOST = ROUNDS / 2;

async function setUp(peers: number): Promise<{ lock: ProcessLock; all: Peer[] }> {
  const lock = new ProcessUnderTest({ path: lockPath(), timeout: 20_000 }) as unknown as ProcessLock;
  onTestFinished(() => lock.close());
  return { lock, all: await Promise.all(Array.from({ length: peers }, () => Peer.start(lock.path))) };
}

function waitersOf(lock: ProcessLock, key: string): number {
  return lock.inspect().find((state) => state.key === key)?.waiters.length ?? 0;
}

/** Resolves once `count` processes wait for a key. */
function untilWaiting(lock: ProcessLock, key: string, count: number): Promise<void> {
  return until(() => waitersOf(lock, key) === count, `${count} wait for ${key}`);
}

describe('a release wakes', () => {
  it('all processes that wait to share the key', async () => {
    const { lock, all } = await setUp(4);
    let together = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const guard = lock.acquireSync('a');
      const readers = all.map((peer) => watch(peer.ask<Got>('acquire', 'a', { mode: 'shared' })));
      await untilWaiting(lock, 'a', all.length);
      guard.release();
      await Promise.race(readers.map(({ promise }) => promise));
      await sleep(WOKEN);
      if (readers.every(({ state }) => state === 'fulfilled')) together++;
      await Promise.all(readers.map(({ promise }) => promise));
      await Promise.all(all.map((peer) => peer.ask('releaseAll')));
    }
    expect(together).toBeGreaterThanOrEqual(MOST);
  });

  it.each(['pass', 'passSync'])('the next process, and so on (%s)', async (way) => {
    const { lock, all } = await setUp(5);
    let prompt = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const guard = lock.acquireSync('a');
      const passes = [];
      for (const peer of all) {
        passes.push(watch(peer.ask(way, 'a')));
        await untilWaiting(lock, 'a', passes.length);
      }
      guard.release();
      await sleep(WOKEN);
      if (passes.every(({ state }) => state === 'fulfilled')) prompt++;
      await Promise.all(passes.map(({ promise }) => promise));
    }
    expect(prompt).toBeGreaterThanOrEqual(MOST);
  });
});

it('a release wakes the next process if those that have waited longer have died', async () => {
  const { lock, all } = await setUp(2);
  let prompt = 0;
  for (let round = 0; round < ROUNDS / 2; round++) {
    const victim = await Peer.start(lock.path);
    const guard = lock.acquireSync('a');
    const passes = [];
    void victim.ask('acquire', 'a').catch(() => undefined);
    await untilWaiting(lock, 'a', 1);
    for (const peer of all) {
      passes.push(watch(peer.ask('pass', 'a')));
      await untilWaiting(lock, 'a', passes.length + 1);
    }
    await sleep(NOT_PASSED);
    await victim.kill();
    guard.release();
    await sleep(WOKEN);
    if (passes.every(({ state }) => state === 'fulfilled')) prompt++;
    await Promise.all(passes.map(({ promise }) => promise));
  }
  expect(prompt).toBeGreaterThan(ROUNDS / 4);
});

describe('a key', () => {
  it.runIf(process.platform !== 'win32')(
    'is kept for a process that has waited, and not for ever, if that is stopped',
    async () => {
      const { lock, all } = await setUp(1);
      const keys = Array.from({ length: 20 }, (_, i) => `key ${i}`);
      const guards = keys.map((key) => lock.acquireSync(key));
      void all[0]!.ask('acquireAll', keys).catch(() => undefined);
      for (const key of keys) await untilWaiting(lock, key, 1);
      await sleep(NOT_PASSED);
      all[0]!.child.kill('SIGSTOP');
      await sleep(NOT_PASSED);
      const kept = keys.filter((key, i) => {
        guards[i]!.release();
        const next = lock.tryAcquire(key);
        next?.release();
        return next === undefined;
      });
      // A turn ends after 10 ms: a test that is stopped for so long gets the key.
      expect(kept.length).toBeGreaterThanOrEqual(keys.length / 2);
      for (const key of keys) {
        if (!kept.includes(key)) continue;
        (await lock.acquire(key)).release();
        // It did not use its turn, so it gets no other one before it tries again.
        expect(lock.tryAcquire(key)?.held).toBe(true);
      }
    },
  );

  it('goes to another process that has waited longer than the next one of the same process', async () => {
    const { lock, all } = await setUp(1);
    const guard = lock.acquireSync('a');
    const other = all[0]!.ask<Got>('acquire', 'a').then(async (got) => {
      await all[0]!.ask('releaseAll');
      return got;
    });
    await untilWaiting(lock, 'a', 1);
    const use = async (next: ProcessGuard): Promise<bigint> => {
      await sleep(NOT_PASSED);
      next.release();
      return next.token;
    };
    const own = Array.from({ length: 20 }, () => lock.acquire('a').then(use));
    await sleep(NOT_PASSED);
    guard.release();
    const tokens = await Promise.all(own);
    expect(Number(BigInt((await other).token) - tokens.at(-1)!)).toBeLessThan(0);
  });

  it('that a process got in its turn is not kept for its next acquisition', async () => {
    const { lock, all } = await setUp(2);
    const [holder, other] = all as [Peer, Peer];
    const agent = await Agent.start(lock as unknown as StripedLock);
    let inOrder = 0;
    for (let round = 0; round < ROUNDS; round++) {
      await holder.ask('acquire', 'a');
      void agent.acquireSync('a');
      // Longer than its process may keep the key, and within its turn.
      const released = agent.call('releaseAfter', round, 3);
      await untilWaiting(lock, 'a', 1);
      const second = other.ask<Got>('acquire', 'a');
      await untilWaiting(lock, 'a', 2);
      const third = lock.acquire('a').then((guard) => {
        guard.release();
        return guard.token;
      });
      await sleep(NOT_PASSED);
      await holder.ask('releaseAll');
      await released;
      const { token } = await second;
      await other.ask('releaseAll');
      if (BigInt(token) < (await third)) inOrder++;
    }
    expect(inOrder).toBeGreaterThanOrEqual(MOST);
  });

  it('that other processes share is not given to new readers while a writer waits', async () => {
    const { lock, all } = await setUp(2);
    const [reader, newcomer] = all as [Peer, Peer];
    const keys = Array.from({ length: 2 * ROUNDS }, (_, i) => `key ${i}`);
    await reader.ask('acquireEach', keys, { mode: 'shared' });
    const writers = keys.map((key) => lock.acquire(key));
    await sleep(NOT_PASSED);
    // Each key once: a key that was granted and released would be kept for the writer then.
    const answers = await Promise.all(
      keys.map((key) => newcomer.ask<Got | undefined>('tryAcquire', key, { mode: 'shared' })),
    );
    // A writer whose process was stopped for 60 ms is passed.
    expect(answers.filter((got) => got === undefined).length).toBeGreaterThanOrEqual(ROUNDS);
    await Promise.all(all.map((peer) => peer.ask('releaseAll')));
    for (const writer of writers) (await writer).release();
  });

  it('that threads of one process share without a gap is given to a writer of another process', async () => {
    const { lock, all } = await setUp(1);
    let reader = lock.acquireSync('a', { mode: 'shared' });
    const writer = all[0]!.ask<Got>('acquire', 'a');
    await untilWaiting(lock, 'a', 1);
    let next: ProcessGuard<'shared'> | undefined = reader;
    for (let i = 0; i < 500 && next !== undefined; i++) {
      await sleep(1);
      next = lock.tryAcquire('a', { mode: 'shared' });
      reader.release();
      reader = next ?? reader;
    }
    expect(next).toBeUndefined();
    await writer;
  });

  it.runIf(process.platform !== 'win32')('is shared although a writer waits that is stopped', async () => {
    const { lock, all } = await setUp(2);
    const [reader, writer] = all as [Peer, Peer];
    await reader.ask('acquire', 'a', { mode: 'shared' });
    void writer.ask('acquire', 'a').catch(() => undefined);
    await untilWaiting(lock, 'a', 1);
    writer.child.kill('SIGSTOP');
    (await lock.acquire('a', { mode: 'shared' })).release();
  });
});

it('of the processes that wait for a holder that is killed, the first gets the key', async () => {
  const { lock, all } = await setUp(1);
  let first = 0;
  for (let round = 0; round < ROUNDS / 2; round++) {
    const victim = await Peer.start(lock.path);
    await victim.ask('acquire', 'a');
    const own = lock.acquire('a');
    await untilWaiting(lock, 'a', 1);
    // If both looked every 250 ms, the other would look first after the kill.
    await sleep(125);
    const other = all[0]!.ask<Got>('acquire', 'a').then(async (got) => {
      await all[0]!.ask('releaseAll');
      return got;
    });
    await untilWaiting(lock, 'a', 2);
    await sleep(155);
    await victim.kill();
    const guard = await own;
    guard.release();
    if (guard.token < BigInt((await other).token)) first++;
  }
  expect(first).toBeGreaterThan(ROUNDS / 4);
});
