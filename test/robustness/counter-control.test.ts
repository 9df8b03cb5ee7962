import { expect, it } from 'vitest';
import { runThreads } from '../support/threads.js';

// The tests of mutual exclusion prove nothing unless their counters lose updates without a lock.
it('a plain counter loses updates when four threads count without a lock', async () => {
  const cells = new SharedArrayBuffer(4);
  const gate = new SharedArrayBuffer(4);
  const rounds = 300_000;
  await runThreads('count-unlocked.mjs', Array(4).fill({ cells, gate, threads: 4, rounds }));
  expect(new Int32Array(cells)[0]).toBeLessThan(4 * rounds);
});
