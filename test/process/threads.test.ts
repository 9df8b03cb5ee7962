import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { LockKey, StripedLock } from 'stripelock';
import { Agent } from '../support/agent.js';
import { until, watch } from '../support/waiting.js';
import { ProcessUnderTest } from '../workers/process-under-test.mjs';
import { lockPath } from './peer.js';

// Threads of one process that wait for each other's keys of a file.

/** Milliseconds after which waiters give up that may. */
const PATIENCE = 2000;

async function setUp(threads: number): Promise<{ lock: StripedLock; all: Agent[] }> {
  const made = new ProcessUnderTest({ path: lockPath(), timeout: 20_000 });
  onTestFinished(() => made.close());
  const lock = made as unknown as StripedLock;
  return { lock, all: await Promise.all(Array.from({ length: threads }, () => Agent.start(lock))) };
}

function untilWaiting(lock: StripedLock, count: number): Promise<void> {
  return until(() => lock.stats().waiting === count, `${count} wait`);
}

describe('a thread is not refused as a part of a deadlock', () => {
  it('that ends when a writer between readers gives up, or is passed as its thread is blocked', async () => {
    const { lock, all } = await setUp(4);
    const [one, two, three, four] = all as [Agent, Agent, Agent, Agent];
    const shared = { mode: 'shared' } as const;
    const a = await one.acquireSync('a', shared);
    const b = await two.acquireSync('b');
    const c = await four.acquireSync('c');
    const writer = watch(four.acquire('a', { timeout: PATIENCE }));
    await untilWaiting(lock, 1);
    // Its thread blocks, so others pass it.
    const passed = three.acquire('a', { timeout: Infinity });
    await untilWaiting(lock, 2);
    const blocked = three.acquireSync('c', { timeout: Infinity });
    const reader = one.acquireSync('b', { timeout: Infinity });
    await untilWaiting(lock, 4);
    // From now on no newcomer may pass the writer.
    await sleep(5);
    // Waits for the first writer alone. It can share the key with the thread that waits for it.
    const second = await two.acquireSync('a', shared);
    await until(() => writer.state !== 'pending', 'the writer gives up');
    expect(writer.reason).toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
    for (const guard of [second, b]) await guard.release();
    await (await reader).release();
    await a.release();
    await c.release();
    await (await blocked).release();
    await (await passed).release();
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
  });

  it('that ends when the acquisition of a list gives up', async () => {
    const { lock, all } = await setUp(2);
    const [one, two] = all as [Agent, Agent];
    // Which key of a list it takes first is the lock's to choose.
    for (const keys of Array.from({ length: 6 }, (_, i) => [`one ${i}`, `two ${i}`] as [LockKey, LockKey])) {
      const held = await two.acquireSync(keys[0]);
      const list = watch(one.acquire(keys, { timeout: PATIENCE / 5 }));
      await untilWaiting(lock, 1);
      const other = await two.acquireSync(keys[1]);
      await until(() => list.state !== 'pending', 'the list gives up');
      expect(list.reason).toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
      for (const guard of [held, other]) await guard.release();
    }
  });
});

it.each(['acquireSync', 'acquire'] as const)(
  'a grant to a thread that computes does not keep %s from the key at its deadline',
  async (way) => {
    const { lock, all } = await setUp(1);
    const [busy] = all as [Agent];
    const guard = lock.acquireSync('a');
    const granted = watch(busy.acquire('a'));
    await untilWaiting(lock, 1);
    const stop = await busy.compute();
    guard.release();
    // Shorter than the time after which such a grant is taken back from the thread in any case.
    const next = await lock[way]('a', { timeout: 20 });
    stop();
    next.release();
    // And the thread gets it when it comes back.
    await (await granted.promise).release();
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
  },
);
