import { expect } from 'vitest';
import { StripedLock } from 'stripelock';

/** Milliseconds after a thread's end in which its waiters must continue. */
export const GO_ON = 100;
export const FOR_EVER = { timeout: Infinity };

export function newLock(stripes = 64): StripedLock {
  return new StripedLock({ engine: 'native', stripes, name: 'mortal' });
}

/** The time at which a promise is fulfilled, on performance.now()'s clock. */
export async function timeOf(promise: Promise<unknown>): Promise<number> {
  await promise;
  return performance.now();
}

export function expectIdle(lock: StripedLock): void {
  expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0, deadlocks: 0 });
  expect(lock.inspect()).toEqual([]);
}
