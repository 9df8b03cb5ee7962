import { expect, it } from 'vitest';
import { runProgram } from '../support/programs.js';
import { seedFor } from '../support/seed.js';

const THREADS = 150;
/** Milliseconds after which a busy machine starts no more of them. */
const LONGEST = 20_000;
/**
 * MiB. Each thread has a separate lock of 4 MiB, and all but thirty threads start after the first measurement: their
 * locks would leave 480.
 */
const FLAT = 70;

interface Churned {
  readonly violations: string[];
  readonly threads: number;
  readonly gotGoing: number;
  readonly sections: number;
  readonly abandoned: number;
  readonly longestWait: number;
  readonly warm: number;
  readonly end: number;
}

// In a separate process, as a crash would end it.
it('hundreds of threads that end at random moments leave no stuck stripe, no false grant and no garbage', async () => {
  const seed = seedFor('threads that come and go');
  const { code, signal, stdout, stderr } = await runProgram(
    'churn.mjs',
    [seed, THREADS, LONGEST].map(String),
    ['--expose-gc'],
    // It ends soon after the last thread has started; twice that time is a hang.
    2 * LONGEST,
    // Without this, glibc keeps large freed blocks after it has seen the first one freed.
    { MALLOC_MMAP_THRESHOLD_: '65536' },
  );
  expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' });
  console.log(stdout);
  const result = JSON.parse(stdout) as Churned;
  expect(result.violations).toEqual([]);
  // Otherwise it tested too little: threads must work, and die while they hold stripes.
  expect(result.threads).toBeGreaterThan(30);
  expect(result.gotGoing).toBeGreaterThan(result.threads / 2);
  expect(result.sections).toBeGreaterThan(result.threads / 10);
  expect(result.abandoned).toBeGreaterThan(result.threads / 4);
  expect(result.end - result.warm).toBeLessThan(FLAT);
});
