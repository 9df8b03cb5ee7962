// Tasks that wait in JavaScript behind others of their thread, as other threads and users see them.
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { KeyedLock, LockTimeoutError, StripedLock } from 'stripelock';
import { Agent } from '../../support/agent.js';
import { keysApart } from '../../support/keys.js';
import { seedFor } from '../../support/seed.js';
import { Victim } from '../../support/victim.js';
import { rejectionOf, thrownBy, turns, until } from '../../support/waiting.js';
import { below, randomFrom } from '../../workers/random.mjs';

describe('tasks that wait behind another of their thread', () => {
  it.each([Infinity, 30_000, 900])(
    'come before a thread that came later, with a timeout of %d ms',
    async (timeout) => {
      const lock = new StripedLock({ timeout: Infinity });
      const other = await Agent.start(lock);
      const guard = lock.acquireSync('key');
      const order: string[] = [];
      const tasks = ['a', 'b'].map(async (name) => {
        const own = await lock.acquire('key', { timeout });
        order.push(name);
        await Promise.resolve();
        own.release();
      });
      const theirs = other.acquireSync('key').then(async (got) => {
        order.push('thread');
        await got.release();
      });
      await until(() => lock.stats().waiting === 3, 'all wait');
      // Longer than other tasks may overtake it.
      await delay(5);
      guard.release();
      await Promise.all([...tasks, theirs]);
      expect(order).toEqual(['a', 'b', 'thread']);
    },
  );

  it('keep their deadline when they then wait behind another thread', async () => {
    const lock = new StripedLock({ timeout: 30_000 });
    const other = await Agent.start(lock);
    const guard = lock.acquireSync('key');
    const theirs = other.acquireSync('key');
    await until(() => lock.stats().waiting === 1, 'the other thread waits');
    const start = performance.now();
    const late = rejectionOf(lock.acquire('key', { timeout: 2000 }));
    const behind = lock.acquire('key');
    await delay(1500);
    guard.release();
    expect(await late).toBeInstanceOf(LockTimeoutError);
    // If its wait restarted at the release, it would be 3500.
    expect(performance.now() - start).toBeLessThan(3000);
    await (await theirs).release();
    (await behind).release();
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 1 });
  });

  it('show for how long they have waited, also without a timeout', async () => {
    const lock = new StripedLock({ timeout: Infinity });
    const guard = lock.acquireSync('key');
    const waiting = [lock.acquire('key'), lock.acquire('key', { timeout: 500_000 })];
    await delay(60);
    const before = lock.inspect()[0]!.waiters.map(({ waitingFor }) => waitingFor);
    // A tick comes within 10 ms, or as late as the first of the two timers that are due here.
    for (const waitingFor of before) expect(waitingFor).toBeGreaterThan(0);
    await delay(40);
    const after = lock.inspect()[0]!.waiters.map(({ waitingFor }) => waitingFor);
    for (const [i, waitingFor] of after.entries()) expect(waitingFor - before[i]!).toBeGreaterThanOrEqual(39);
    guard.release();
    for (const each of waiting) (await each).release();
  });

  it.each(['before', 'after'])(
    'see the holder’s death if the first of them is aborted %s it',
    async (when) => {
      const lock = new StripedLock({ timeout: Infinity });
      const victim = await Victim.start(lock, { holds: [{ keys: 'key' }] });
      const abort = new AbortController();
      const first = rejectionOf(lock.acquire('key', { signal: abort.signal }));
      const [second, third] = [lock.acquire('key'), lock.acquire('key')];
      await until(() => lock.stats().waiting === 3, 'all wait');
      if (when === 'before') abort.abort('over');
      void victim.end('terminate');
      // The event loop does not turn, so that the first does not learn of its grant.
      const cell = new Int32Array(new SharedArrayBuffer(4));
      for (let i = 0; lock.stats().abandoned === 0 && i < 20_000; i++) Atomics.wait(cell, 0, 0, 1);
      abort.abort('over');
      expect(await first).toBe('over');
      expect(await second).toMatchObject({ abandoned: true });
      (await second).release();
      expect(await third).toMatchObject({ abandoned: false });
      (await third).release();
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, abandoned: 1 });
    },
  );

  it('pass the holder’s death on to the next if the last of them is aborted before it sees its turn', async () => {
    const lock = new StripedLock({ timeout: 20_000 });
    const victim = await Victim.start(lock, { holds: [{ keys: 'key' }] });
    const aborts = [new AbortController(), new AbortController()];
    const aborted = aborts.map(({ signal }) => rejectionOf(lock.acquire('key', { signal })));
    await until(() => lock.stats().waiting === 2, 'both wait');
    void victim.end('terminate');
    // The event loop does not turn, so that neither learns of its turn.
    const cell = new Int32Array(new SharedArrayBuffer(4));
    for (let i = 0; lock.stats().abandoned === 0 && i < 20_000; i++) Atomics.wait(cell, 0, 0, 1);
    for (const abort of aborts) abort.abort('over');
    expect(await Promise.all(aborted)).toEqual(['over', 'over']);
    await turns();
    expect(lock.acquireSync('key')).toMatchObject({ abandoned: true });
  });

  it.each(['its microtasks run', 'it blocks'])(
    'leave the key to another thread if the last of them is aborted before it sees its turn, when %s',
    async (when) => {
      const lock = new StripedLock({ timeout: 20_000 });
      const [key, taken] = keysApart(lock, 2) as [string, string];
      const [other, holder] = await Promise.all([Agent.start(lock), Agent.start(lock)]);
      const held = await holder.acquireSync(taken);
      const guard = lock.acquireSync(key);
      const abort = new AbortController();
      const aborted = rejectionOf(lock.acquire(key, { signal: abort.signal }));
      guard.release();
      abort.abort('over');
      // The other one waits for what is being handed over, so that this thread cannot free it by itself.
      const theirs = other.acquireSync(key);
      const cell = new Int32Array(new SharedArrayBuffer(4));
      for (let i = 0; lock.stats().waiting === 0 && i < 20_000; i++) Atomics.wait(cell, 0, 0, 1);
      if (when === 'it blocks') {
        thrownBy(() => lock.acquireSync(taken, { timeout: 300 }));
        const holders = lock.inspect().flatMap((stripe) => stripe.holders);
        expect(holders.map(({ threadId }) => threadId)).toContain(other.threadId);
      }
      expect(await aborted).toBe('over');
      await (await theirs).release();
      await held.release();
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    },
  );

  it('are served if the acquisition in front gives the key back to wait for another one', async () => {
    const lock = new StripedLock({ timeout: 20_000 });
    const [low, high] = keysApart(lock, 2).toSorted((a, b) => lock.stripeOf(a) - lock.stripeOf(b)) as [
      string,
      string,
    ];
    const [holder, other] = await Promise.all([Agent.start(lock), Agent.start(lock)]);
    const theirs = await holder.acquireSync(high);
    const abort = new AbortController();
    const { signal } = abort;
    const listenAs = signal.addEventListener.bind(signal);
    let inner: ReturnType<typeof lock.acquire> | undefined;
    // The program's own code runs when the acquisition has taken the first key.
    signal.addEventListener = (...args: Parameters<AbortSignal['addEventListener']>) => {
      inner ??= lock.acquire(low);
      listenAs(...args);
    };
    const outer = rejectionOf(lock.acquire([low, high], { signal }));
    const wanted = other.acquireSync(low);
    await until(() => lock.stats().waiting === 3, 'all wait');
    // While this thread blocks, the other one gets the key.
    thrownBy(() => lock.acquireSync(high, { timeout: 300 }));
    const got = await wanted;
    abort.abort('over');
    expect(await outer).toBe('over');
    await got.release();
    (await inner!).release();
    await theirs.release();
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
  });
});

describe('holders, waiters and free permits', () => {
  it.each([1, 2, 3])('add up at every step, with a limit of %d', async (limit) => {
    const seed = seedFor('local sums');
    const random = randomFrom(seed);
    const keys = ['a', 'b', 'c'];
    const lock = new KeyedLock({ limit, timeout: Infinity });
    const held = new Set<{ release(): void }>();
    const aborts = new Set<AbortController>();
    const settled: Promise<void>[] = [];
    const check = (step: string): void => {
      const states = new Map(lock.inspect().map((state) => [state.key, state]));
      let waiting = 0;
      for (const key of keys) {
        const holders = states.get(key)?.holders.length ?? 0;
        const free = lock.tryAcquire(key);
        free?.release();
        expect({ seed, step, key, full: holders === limit }).toEqual({
          seed,
          step,
          key,
          full: free === undefined,
        });
        waiting += states.get(key)?.waiters.length ?? 0;
      }
      expect({ seed, step, waiting }).toEqual({ seed, step, waiting: lock.stats().waiting });
    };
    const start = (): void => {
      const wanted = keys.filter(() => random() < 0.5);
      if (wanted.length === 0) return;
      const abort = new AbortController();
      aborts.add(abort);
      const got = lock.acquire(wanted.length === 1 ? wanted[0]! : wanted, { signal: abort.signal });
      settled.push(
        got.then(
          (guard) => void (aborts.delete(abort), held.add(guard)),
          () => void aborts.delete(abort),
        ),
      );
    };
    const steps: [string, () => unknown][] = [
      ['start', start],
      ['start', start],
      ['release', () => first(held)?.release()],
      ['release', () => first(held)?.release()],
      ['abort', () => first(aborts)?.abort()],
      ['microtask', () => Promise.resolve()],
      ['turn', () => turns()],
    ];
    for (let i = 0; i < 1500; i++) {
      const [step, run] = steps[below(random, steps.length)]!;
      const done = run();
      check(step);
      await done;
      check(`after ${step}`);
    }
    for (const abort of aborts) abort.abort();
    await Promise.all(settled);
    for (const guard of held) guard.release();
    expect(lock.inspect()).toEqual([]);
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
  });
});

/** Takes the first out. */
function first<T>(set: Set<T>): T | undefined {
  const [one] = set;
  if (one !== undefined) set.delete(one);
  return one;
}
