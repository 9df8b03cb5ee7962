import { inspect } from 'node:util';
import { BroadcastChannel, MessageChannel, Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { KeyedLock, StripedLock } from 'stripelock';
import { keysApart } from '../support/keys.js';
import { workerScript } from '../support/threads.js';
import { thrownBy } from '../support/waiting.js';

for (const engine of ['native', 'javascript'] as const) {
  const newLock = (stripes = 16): StripedLock => new StripedLock({ engine, stripes, timeout: 30_000 });

  describe(`guards of the ${engine} engine`, () => {
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
          expect(error.message).toMatch(/stripelock (Guard|lock) belongs to its thread: pass lock\.handle/);
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
