import { describe, expect, it } from 'vitest';
import type { Suite } from '../support/engine.js';
import { seedFor } from '../support/seed.js';
import { runTogether } from '../support/threads.js';

interface MixedResult {
  readonly added: number;
  readonly ways: Record<'sync' | 'try' | 'async', number>;
}

export const mutualExclusionSuite: Suite = (makeLock) => {
  describe('mutual exclusion', () => {
    for (const threads of [2, 4, 8]) {
      for (const [where, stripes, keyCount] of [
        ['one stripe', 1, 1],
        ['a few stripes', 4, 16],
      ] as const) {
        it(`loses no update of a plain counter: ${threads} threads, ${where}, sync, try and async mixed`, async () => {
          const seed = seedFor(`${threads} threads on ${where}`);
          const lock = makeLock({ stripes, timeout: 30_000 });
          const cells = new SharedArrayBuffer(4 * stripes);
          const { handle } = lock;
          const data = { handle, cells, keyCount, rounds: 12_000 / threads, seed };
          const results = await runTogether<MixedResult>('mixed.mjs', threads, data);
          const total = new Int32Array(cells).reduce((sum, value) => sum + value, 0);
          expect(total).toBe(results.reduce((sum, { added }) => sum + added, 0));
          for (const { ways } of results) {
            for (const way of ['sync', 'try', 'async'] as const) expect(ways[way]).toBeGreaterThan(0);
          }
          expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, deadlocks: 0 });
        });
      }
    }
  });
};
