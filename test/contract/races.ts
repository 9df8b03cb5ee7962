import { describe, expect, it } from 'vitest';
import type { Suite } from '../support/engine.js';
import { seedFor } from '../support/seed.js';
import { runThreads } from '../support/threads.js';

interface RaceResult {
  readonly granted: number;
  readonly failed: number;
}

export const racesSuite: Suite = (makeLock) => {
  describe('release and timeout at the same moment', () => {
    for (const how of ['sync', 'async'] as const) {
      it(`end in exactly one outcome each, thousands of times, for ${how} waiters`, async () => {
        const seed = seedFor(`release and timeout, ${how}`);
        const lock = makeLock({ stripes: 1 });
        const steps = new SharedArrayBuffer(8);
        const cells = new SharedArrayBuffer(4);
        const rounds = how === 'sync' ? 2000 : 300;
        const waitersEach = how === 'sync' ? 1 : 10;
        const common = { handle: lock.handle, steps, cells, rounds };
        const [holder, waiter] = await runThreads<RaceResult>('release-and-timeout.mjs', [
          { ...common, role: 'holder', seed },
          { ...common, role: 'waiter', how, waitersEach },
        ]);
        console.log(`release and timeout, ${how}: ${waiter!.granted} granted, ${waiter!.failed} timed out`);
        expect(holder!.granted).toBe(rounds);
        expect(waiter!.granted + waiter!.failed).toBe(rounds * waitersEach);
        // If one of the outcomes never came, the two did not meet.
        expect(waiter!.granted).toBeGreaterThan(rounds / 100);
        expect(waiter!.failed).toBeGreaterThan(rounds / 100);
        expect(new Int32Array(cells)[0]).toBe(holder!.granted + waiter!.granted);
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: waiter!.failed, deadlocks: 0 });
        expect(lock.tryAcquire('key')).toBeDefined();
      });
    }
  });
};
