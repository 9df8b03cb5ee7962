import { describe, expect, it } from 'vitest';
import { runProgram } from '../../support/programs.js';
import { seedFor } from '../../support/seed.js';

interface Counts {
  readonly made: number;
  readonly opened: number;
  readonly inArena: boolean;
}

/** Milliseconds. It takes a few seconds, and many more on a busy machine. */
const LONGEST = 60_000;

describe('the memory of a lock that is gone', () => {
  it(
    'is reused for new locks, but never while a thread has the lock or a handle of it',
    { timeout: LONGEST },
    async () => {
      const seed = seedFor('reused memory');
      const { code, stdout, stderr } = await runProgram(
        'reused-memory.mjs',
        [String(seed), '3000'],
        ['--expose-gc'],
        LONGEST,
      );
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const { made, opened, inArena } = JSON.parse(stdout) as Counts;
      // About ten times as much memory as the arena has.
      expect(made).toBeGreaterThan(2500);
      expect(opened).toBeGreaterThan(0);
      expect(inArena).toBe(true);
    },
  );
});
