// The JavaScript engine between real threads, with many waiters, and on memory that somebody scribbled on.
import { describe, expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { seedFor } from '../../support/seed.js';
import { runThreads } from '../../support/threads.js';

function makeLock(options?: { stripes?: number; timeout?: number }): StripedLock {
  return new StripedLock({ engine: 'javascript', ...options });
}

describe('between threads', () => {
  interface Result {
    readonly manner: string;
    readonly added: number[];
    readonly torn: number;
    readonly longest: number;
  }

  const mixes: [manners: string[], stripes: number, sharedPercent: number, mostKeys: number][] = [
    [['sync', 'sync', 'sync', 'sync'], 1, 0, 1],
    [['sync', 'sync', 'sync', 'sync'], 3, 50, 3],
    [['async', 'async', 'async', 'async'], 1, 30, 1],
    [['keeping', 'async', 'keeping', 'async'], 4, 30, 4],
    [['sync', 'async', 'sync', 'keeping'], 1, 30, 1],
    [['mixed', 'mixed', 'mixed', 'mixed'], 1, 0, 1],
    [['mixed', 'mixed', 'mixed', 'mixed'], 6, 30, 4],
    [['mixed', 'sync', 'async', 'keeping'], 4, 30, 3],
  ];
  for (const [manners, stripes, sharedPercent, mostKeys] of mixes) {
    const what = `${manners.join(', ')} on ${stripes} stripes, ${sharedPercent} % shared, up to ${mostKeys} keys`;
    it(`no call and no update gets lost: ${what}`, async () => {
      const seed = seedFor(what);
      const lock = makeLock({ stripes, timeout: Infinity });
      const cells = new SharedArrayBuffer(8 * stripes);
      const gate = new SharedArrayBuffer(4);
      const threads = manners.length;
      const results = await runThreads<Result>(
        'javascript-stress.mjs',
        manners.map((manner, i) => ({
          ...{ handle: lock.handle, cells, gate, threads, manner, sharedPercent, mostKeys },
          ...{ rounds: 1500, calledOnly: true, seed: seed + i },
        })),
      );
      const counters = new Int32Array(cells);
      for (let stripe = 0; stripe < stripes; stripe++) {
        const added = results.reduce((sum, result) => sum + result.added[stripe]!, 0);
        expect([counters[2 * stripe], counters[2 * stripe + 1]]).toEqual([added, added]);
      }
      expect(results.map(({ torn }) => torn)).toEqual(results.map(() => 0));
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0, deadlocks: 0 });
    });
  }
});
