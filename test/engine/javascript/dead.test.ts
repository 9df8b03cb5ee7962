// The traces of waiters of the JavaScript engine that were terminated, or whose wait a `vm` timeout cut off.
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import vm from 'node:vm';
import { describe, expect, it } from 'vitest';
import { KeyedLock, StripedLock } from 'stripelock';
import { Agent } from '../../support/agent.js';
import { keysApart } from '../../support/keys.js';
import { startThread } from '../../support/threads.js';
import { rejectionOf, thrownBy, until, watch } from '../../support/waiting.js';

const SHARED = { mode: 'shared' } as const;
/** Somewhat longer than a reservation lasts (`patience.reserved`), in milliseconds: clocks of threads differ a little. */
const RESERVED_FOR = 30;

function makeLock(stripes = 1): StripedLock {
  return new StripedLock({ engine: 'javascript', stripes, timeout: 20_000 });
}

describe('a waiter that is terminated', () => {
  /** Called once, and passed by: then it sleeps in front of those who have just come. */
  const passBy = async (lock: StripedLock, holder: { release(): void }): Promise<{ release(): void }> => {
    let again: { release(): void } | undefined;
    for (let guard = holder; again === undefined; guard = again ?? lock.acquireSync('key')) {
      guard.release();
      // It may have been quicker: then it waits again once this thread has it back.
      again = lock.tryAcquire('key');
    }
    await delay(10);
    return again;
  };

  for (const way of ['sync', 'async'] as const) {
    for (const place of ['at the back', 'in front'] as const) {
      it(`leaves the stripe to the next tryAcquire (${way}, ${place})`, async () => {
        let diedAwake = 0;
        for (let round = 0; round < 12; round++) {
          const lock = makeLock();
          let guard: { release(): void } = lock.acquireSync('key');
          const worker = startThread('javascript-waiter.mjs', { handle: lock.handle, way });
          await once(worker, 'message');
          await until(() => lock.stats().waiting === 1, 'the thread waits');
          await delay(round);
          if (place === 'in front') guard = await passBy(lock, guard);
          await worker.terminate();
          guard.release();
          let taken = lock.tryAcquire('key');
          if (taken === undefined) {
            // It was ended in one of the moments in which it was awake: then its reservation lasts for a while.
            diedAwake++;
            await delay(RESERVED_FOR);
            taken = lock.tryAcquire('key');
          }
          expect(taken, `round ${round}`).toBeDefined();
          taken!.release();
        }
        expect(diedAwake).toBeLessThan(12);
      });
    }
  }

  it('leaves the stripe to the waiters behind it, before they poll', async () => {
    const lock = makeLock();
    let guard: { release(): void } = lock.acquireSync('key');
    const worker = startThread('javascript-waiter.mjs', { handle: lock.handle, way: 'sync' });
    await once(worker, 'message');
    await until(() => lock.stats().waiting === 1, 'the thread waits');
    guard = await passBy(lock, guard);
    await worker.terminate();
    const behind = watch(lock.acquire('key'));
    guard.release();
    (await behind.promise).release();
    lock.tryAcquire('key')!.release();
  });

  it('keeps readers out only for a limited time', async () => {
    const lock = makeLock();
    const reader = lock.acquireSync('key', SHARED);
    const worker = startThread('javascript-waiter.mjs', { handle: lock.handle, way: 'sync' });
    await once(worker, 'message');
    await until(() => lock.stats().waiting === 1, 'the writer waits');
    await delay(50);
    await worker.terminate();
    let second: { release(): void } | undefined;
    await until(() => (second = lock.tryAcquire('key', SHARED)) !== undefined, 'a reader is let in');
    second!.release();
    const third = await Agent.start(lock);
    await (await third.acquireSync('key', SHARED)).release();
    reader.release();
    lock.tryAcquire('key')!.release();
  });
});

describe('a waiter that leaves, before another one that stays', () => {
  const MODES = ['exclusive', 'shared'] as const;

  for (const first of MODES) {
    for (const second of MODES) {
      for (const way of ['sync', 'async'] as const) {
        it(`leaves the key free at the end: ${first}, terminated (${way}); ${second}`, async () => {
          const lock = makeLock();
          const holder = lock.acquireSync('key');
          const worker = startThread('javascript-waiter.mjs', { handle: lock.handle, way, mode: first });
          await once(worker, 'message');
          await until(() => lock.stats().waiting === 1, 'the thread waits');
          const behind = watch(lock.acquire('key', { mode: second }));
          await worker.terminate();
          holder.release();
          (await behind.promise).release();
          lock.tryAcquire('key')!.release();
          expect(lock.stats().held).toBe(0);
        });
      }
    }
  }

  const locks = [
    ...MODES.flatMap((first) => MODES.map((second) => [first, second, makeLock] as const)),
    ['a permit', 'a permit', () => new KeyedLock({ engine: 'javascript', limit: 2, timeout: 20_000 })],
  ] as const;
  for (const [first, second, make] of locks) {
    for (const end of ['times out', 'is aborted'] as const) {
      it(`leaves the key free at the end: ${first}, ${end}; ${second}`, async () => {
        const lock = make() as StripedLock;
        const modeOf = (mode: string): { mode: 'shared' | 'exclusive' } => ({
          mode: mode === 'shared' ? mode : 'exclusive',
        });
        const { permitsLeft } = lock.stateOf('key');
        const holders = Array.from({ length: permitsLeft }, () => lock.acquireSync('key'));
        const controller = new AbortController();
        const { signal } = controller;
        const leaving = rejectionOf(
          lock.acquire('key', { ...modeOf(first), ...(end === 'times out' ? { timeout: 10 } : { signal }) }),
        );
        const behind = watch(lock.acquire('key', modeOf(second)));
        if (end === 'is aborted') controller.abort();
        expect(await leaving).toMatchObject({
          name: end === 'times out' ? 'LockTimeoutError' : 'AbortError',
        });
        expect(lock.stats().waiting).toBe(1);
        for (const holder of holders) holder.release();
        (await behind.promise).release();
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
        const all = holders.map(() => lock.tryAcquire('key'));
        expect(all).not.toContain(undefined);
        for (const guard of all) guard!.release();
      });
    }
  }
});

describe('a sync wait that a vm timeout cuts off', () => {
  const run = (acquire: () => unknown, timeout: number): unknown =>
    thrownBy(() => void vm.runInNewContext('acquire()', { acquire }, { timeout }));

  it('leaves no holder and no waiter, at whatever moment of the wait it comes', async () => {
    const lock = makeLock(256);
    const all = keysApart(lock, 60);
    const agent = await Agent.start(lock);
    let waits = 0;
    for (let round = 0; round < 20; round++) {
      const keys = all.slice(3 * round, 3 * round + 3) as [string, string, string];
      const before = lock.stats();
      const mode = round % 2 === 0 ? 'exclusive' : 'shared';
      const theirs = await agent.acquireSync(keys[1]);
      const start = performance.now();
      const error = run(() => lock.acquireSync(keys, { mode, timeout: 10_000 }), 5 + round);
      expect(error).toMatchObject({ code: 'ERR_SCRIPT_EXECUTION_TIMEOUT' });
      // The wait of 10 s is not waited for. Generous, as the machine may be busy.
      expect(performance.now() - start).toBeLessThan(5000);
      // On a busy machine it may be cut off before it waits. Its script keeps what it took until then.
      const waited = lock.stats().contended > before.contended;
      if (!waited) {
        await theirs.release();
        continue;
      }
      waits++;
      const [first, , third] = keys;
      for (const key of [first, third]) {
        const free = lock.tryAcquire(key);
        expect(free, `round ${round}: ${key}`).toBeDefined();
        free!.release();
      }
      expect(lock.stats()).toMatchObject({ held: before.held + 1, waiting: 0 });
      await theirs.release();
      lock.tryAcquire(keys)!.release();
      expect(lock.stats()).toMatchObject({ held: before.held, waiting: 0 });
    }
    expect(waits).toBeGreaterThan(0);
  });

  it('gives back its keys even if its thread no longer uses locks', async () => {
    const lock = makeLock(8);
    const [low, high] = keysApart(lock, 2).sort((a, b) => lock.stripeOf(a) - lock.stripeOf(b)) as [
      string,
      string,
    ];
    const agent = await Agent.start(lock);
    const theirs = await agent.acquireSync(high);
    const pending = watch(lock.acquire([low, high]));
    run(() => lock.acquireSync([low, high], { timeout: 10_000 }), 30);
    await theirs.release();
    // Granted to the acquisition that the blocked thread had put off.
    (await pending.promise).release();
    await (await agent.acquireSync([low, high])).release();
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
  });
});
