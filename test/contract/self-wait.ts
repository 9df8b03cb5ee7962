import { threadId } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { DeadlockError, LockError } from 'stripelock';
import { Agent } from '../support/agent.js';
import type { Suite } from '../support/engine.js';
import { keysApart, keysTogether } from '../support/keys.js';
import { rejectionOf, thrownBy, turns, until, watch } from '../support/waiting.js';

const EXCLUSIVE = { mode: 'exclusive' } as const;
const SHARED = { mode: 'shared' } as const;

export const selfWaitSuite: Suite = (makeLock, engine) => {
  describe('a thread that would block for a stripe that it holds itself', () => {
    it('is refused at once, for equal keys, keys on one stripe, and upgrades', () => {
      const lock = makeLock({ stripes: 16, timeout: Infinity, name: 'self' });
      const [key, twin] = keysTogether(lock, 2) as [string, string];
      for (const [first, wanted, second] of [
        [EXCLUSIVE, key, EXCLUSIVE],
        [EXCLUSIVE, twin, EXCLUSIVE],
        [EXCLUSIVE, key, SHARED],
        [SHARED, key, EXCLUSIVE],
      ] as const) {
        const guard = lock.acquireSync(key, first);
        // With an infinite timeout it would hang if it was not refused.
        const error = thrownBy(() => lock.acquireSync(wanted, second));
        expect(error).toBeInstanceOf(DeadlockError);
        expect(error).toBeInstanceOf(LockError);
        expect(error).toMatchObject({ code: 'ERR_LOCK_DEADLOCK', keys: [wanted], threads: [threadId] });
        const { message } = error as Error;
        expect(message).toContain('"self"');
        expect(message).toContain(JSON.stringify(wanted));
        expect(message).toContain(`stripe ${lock.stripeOf(key)}`);
        expect(guard.held).toBe(true);
        guard.release();
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
      }
      expect(lock.stats().deadlocks).toBe(4);
    });

    it('gets an error that says that locks are not reentrant, and where its own guard was acquired', async () => {
      const traced = makeLock({ trace: true });
      for (const lock of [makeLock(), traced]) {
        const guard = lock.acquireSync('key');
        const refused = (thrownBy(() => lock.acquireSync('key')) as Error).message;
        // An await in the same task would time out, so the message does not advise it.
        const timedOut = ((await rejectionOf(lock.acquire('key', { timeout: 1 }))) as Error).message;
        for (const message of [refused, timedOut]) {
          expect(message).toContain('this same');
          expect(message).toContain('not reentrant');
          expect(message).not.toContain('acquire()');
          expect(message.includes('self-wait.ts')).toBe(lock === traced);
        }
        guard.release();
      }
    });

    it('gets none of the keys that it asked for', () => {
      const lock = makeLock({ timeout: Infinity });
      const keys = keysApart(lock, 3);
      const guard = lock.acquireSync(keys[1]!);
      expect(thrownBy(() => lock.acquireSync(keys))).toBeInstanceOf(DeadlockError);
      expect(lock.stats()).toMatchObject({ held: 1, waiting: 0 });
      guard.release();
      lock.tryAcquire(keys)!.release();
    });

    it('may try without blocking, and wait on the event loop', async () => {
      const lock = makeLock();
      const guard = lock.acquireSync('key');
      expect(lock.tryAcquire('key')).toBeUndefined();
      const waiting = watch(lock.acquire('key'));
      await turns();
      expect(waiting.state).toBe('pending');
      guard.release();
      (await waiting.promise).release();
      expect(lock.stats().deadlocks).toBe(0);
    });

    it('may take shared again what it holds shared', () => {
      const lock = makeLock();
      const guards = Array.from({ length: 100 }, () => lock.acquireSync('key', SHARED));
      expect(lock.tryAcquire('key')).toBeUndefined();
      for (const guard of guards) guard.release();
      lock.tryAcquire('key')!.release();
    });

    for (const [timeout, outcome] of [
      [150, 'waits for a writer between its shared holds that gives up'],
      [Infinity, 'is refused where the writer between its shared holds never gives up'],
    ] as const) {
      engine.acrossThreads(outcome, async () => {
        const lock = makeLock({ timeout: 60_000 });
        const other = await Agent.start(lock);
        const first = lock.acquireSync('key', SHARED);
        const writer = watch(other.acquire('key', { timeout }));
        await until(() => lock.stats().waiting === 1, 'the writer waits');
        if (timeout === Infinity) {
          const refusal = thrownBy(() => lock.acquireSync('key', SHARED));
          expect(refusal).toMatchObject({ code: 'ERR_LOCK_DEADLOCK' });
        } else {
          lock.acquireSync('key', SHARED).release();
          expect(await rejectionOf(writer.promise)).toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
        }
        first.release();
        if (timeout === Infinity) await (await writer.promise).release();
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
      });
    }

    it('is not confused with another thread that waits for the same stripe', async () => {
      const lock = makeLock();
      const other = await Agent.start(lock);
      const guard = lock.acquireSync('key');
      const error = await other.acquireSync('key', { timeout: 30 }).catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
      expect((error as Error).message).not.toContain('reentrant');
      guard.release();
    });
  });
};
