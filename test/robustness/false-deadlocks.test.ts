import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { Agent } from '../support/agent.js';
import { newLock } from '../support/deadlocks.js';
import { keysApart } from '../support/keys.js';
import { seedFor } from '../support/seed.js';
import { runTogether } from '../support/threads.js';
import { turns, until, watch } from '../support/waiting.js';

describe('a wait that can end', () => {
  it('is not refused: on the event loop, for a stripe of its own thread', async () => {
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

  it('is not refused: in a cycle in which one thread waits on its event loop, and can still release', async () => {
    const lock = newLock();
    const [a, b] = keysApart(lock, 2) as [string, string];
    const agent = await Agent.start(lock);
    const theirs = await agent.acquireSync(b);
    const ours = lock.acquireSync(a);
    const waiting = watch(lock.acquire(b));
    const blocked = watch(agent.acquireSync(a));
    await until(() => lock.stats().waiting === 2, 'both wait');
    // Several slices. At the end of each the blocked thread looks for a cycle.
    await delay(100);
    expect([waiting.state, blocked.state]).toEqual(['pending', 'pending']);
    ours.release();
    await (await blocked.promise).release();
    await theirs.release();
    (await waiting.promise).release();
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0 });
  });

  it('is not refused: in a chain of blocked threads whose last one is not blocked', async () => {
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

  it('is not refused: for a stripe granted, but not delivered, to another blocked thread', async () => {
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
    // The pending acquisition cannot use the key while its thread is blocked, so the other one gets it.
    const theirs = await behind.promise;
    await turns();
    expect([pending.state, blocked.state]).toEqual(['pending', 'pending']);
    await theirs.release();
    alsoOurs.release();
    await (await blocked.promise).release();
    await (await pending.promise).release();
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0 });
  });

  it('is never refused in random work in ascending order, sync and async mixed', async () => {
    const seed = seedFor('work in a fixed order');
    const lock = new StripedLock({ engine: 'native', stripes: 16, timeout: 30_000 });
    const keys = keysApart(lock, 8);
    const cells = new SharedArrayBuffer(4 * keys.length);
    interface Work {
      readonly added: number[];
      readonly acquisitions: number;
      readonly changed: number;
      readonly failures: unknown[];
    }
    const data = { handle: lock.handle, cells, keys, milliseconds: 2500, seed };
    const results = await runTogether<Work>('ordered.mjs', 4, data);
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
