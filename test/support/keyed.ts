import type { LockTimeoutError } from 'stripelock';
import { KeyedLock, StripedLock, type LockKey, type StripedLockOptions } from 'stripelock';
import type { EngineUnderTest, MakeLock } from './engine.js';
import { ProcessUnderTest } from '../workers/process-under-test.mjs';
import { thrownBy } from './waiting.js';

/**
 * Makes locks of exact keys that can be tested as if they were striped ones, by the stripe that each key has now. How many
 * stripes a test asks for does not matter to them.
 */
export function makeKeyedLocks(engine: EngineUnderTest): MakeLock {
  class KeyedUnderTest extends KeyedLock {
    get stripes(): number {
      return this.capacity;
    }

    stripeOf(key: LockKey): number {
      const guard = this.tryAcquire(key, { mode: 'shared' });
      if (guard === undefined) {
        const refusal = thrownBy(() => this.acquireSync(key, { timeout: 0 }));
        return (refusal as LockTimeoutError).stripe;
      }
      guard.release();
      return guard.stripes[0]!;
    }
  }
  return ({ stripes: _, ...options }: StripedLockOptions = {}) =>
    new KeyedUnderTest({ engine: engine.name, ...options }) as unknown as StripedLock;
}

/** The same lock once more, of the same class. */
export function openAgain(lock: StripedLock): StripedLock {
  const { handle } = lock;
  if ((lock as unknown) instanceof ProcessUnderTest) {
    return ProcessUnderTest.from(handle as never) as unknown as StripedLock;
  }
  const exact = (lock as unknown) instanceof KeyedLock;
  return exact ? (KeyedLock.from(handle as never) as unknown as StripedLock) : StripedLock.from(handle);
}
