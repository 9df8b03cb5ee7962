import { inspect } from 'node:util';
import { BroadcastChannel, MessageChannel, Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { KeyedLock, StripedLock } from 'stripelock';
import { Agent } from '../support/agent.js';
import { keysApart } from '../support/keys.js';
import { seedFor } from '../support/seed.js';
import { runTogether, workerScript } from '../support/threads.js';
import { thrownBy, turns, until, watch } from '../support/waiting.js';

for (const engine of ['native', 'javascript'] as const) {
  const newLock = (stripes = 16): StripedLock => new StripedLock({ engine, stripes, timeout: 30_000 });

  describe(`guards of the ${engine} engine`, () => {
    it('that are released again and again, in any order, never free what somebody else holds', async () => {
      const seed = seedFor('misused guards');
      const lock = newLock();
      const keys = keysApart(lock, 3);
      const cells = new SharedArrayBuffer(4 * keys.length);
      const data = { handle: lock.handle, cells, keys, rounds: 1500, seed };
      const results = await runTogether<number[]>('misuse.mjs', 3, data);
      const expected = keys.map((_, i) => results.reduce((sum, added) => sum + added[i]!, 0));
      expect([...new Int32Array(cells)]).toEqual(expected);
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0, deadlocks: 0 });
    });

    it('kept after another thread acquired their keys free nothing, while that waits and while it holds', async () => {
      const lock = newLock();
      const keys = keysApart(lock, 3);
      const agent = await Agent.start(lock);
      for (const mode of ['exclusive', 'shared'] as const) {
        const old = [
          lock.acquireSync(keys, { mode }),
          await lock.acquire(keys[0]!, { mode, timeout: 1 }).catch(() => undefined),
        ];
        const theirs = watch(agent.acquireSync(keys, { mode: 'exclusive' }));
        await until(() => lock.stats().waiting > 0, 'the other thread waits');
        for (const guard of old) guard?.release();
        const guard = await theirs.promise;
        const before = lock.inspect();
        {
          using again = old[0]!;
          again.release();
        }
        for (const kept of old) kept?.release();
        expect(lock.inspect()).toEqual(before);
        expect(lock.tryAcquire(keys[1]!, { mode: 'shared' })).toBeUndefined();
        expect(await guard.held()).toBe(true);
        await guard.release();
        expect(lock.inspect()).toEqual([]);
      }
    });

    it('disposed of by using after an explicit release do not affect the next holder', async () => {
      const lock = newLock();
      const waiting = watch(
        (async () => {
          using guard = await lock.acquire('key');
          guard.release();
          await turns();
          return guard.held;
        })(),
      );
      const next = await lock.acquire('key');
      await waiting.promise;
      expect(waiting.value).toBe(false);
      expect(next.held).toBe(true);
      expect(lock.tryAcquire('key')).toBeUndefined();
      next.release();
    });

    it('cannot be cloned or posted, nor can their lock, and the error says what to send', () => {
      const lock = newLock();
      const [one, two, three, four] = keysApart(lock, 4) as [string, string, string, string];
      const { port1, port2 } = new MessageChannel();
      const broadcast = new BroadcastChannel('guards');
      const guards = [
        lock.acquireSync(one),
        lock.acquireSync([two, three], { mode: 'shared' }),
        lock.acquireSync([]),
        lock.tryAcquire(four)!,
      ];
      for (const bound of [...guards, lock, new KeyedLock({ engine })]) {
        const sends: (() => unknown)[] = [
          () => structuredClone(bound),
          () => structuredClone(new Map([['key', [bound]]])),
          () => port1.postMessage({ bound }),
          () => broadcast.postMessage(bound),
          () => new Worker(workerScript('agent.mjs'), { workerData: { bound } }),
        ];
        for (const send of sends) {
          const error = thrownBy(send) as Error;
          expect(error.name).toBe('DataCloneError');
          expect(error.message).toMatch(/stripelock Guard.*thread.*lock\.handle/);
        }
      }
      for (const guard of guards) {
        expect(guard.held).toBe(true);
        guard.release();
      }
      port2.close();
      broadcast.close();
      expect(lock.stats().held).toBe(0);
    });

    it('and their locks are shown by console.log and JSON without what refuses to be cloned', () => {
      for (const lock of [newLock(), new KeyedLock({ engine })]) {
        expect(inspect(lock)).toMatch(new RegExp(`^${lock.constructor.name} \\{[^]*name: '',[^]*\\}$`));
        expect(inspect(lock) + JSON.stringify(lock)).not.toMatch(/threadBound|Symbol/);
      }
    });
  });
}
