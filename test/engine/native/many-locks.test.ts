import { expect, it } from 'vitest';
import { runProgram } from '../../support/programs.js';

/** Parts of 500 locks: so many are the first 5000, and the last 5000. */
const SOME = 10;
/**
 * Measured: 1 to 2, since garbage collections take longer with more objects. With a search through all open locks it
 * was 20.
 */
const SLOWER = 6;

it('the last of 40,000 locks take no longer to open than the first', { timeout: 60_000 }, async () => {
  const { code, stdout, stderr } = await runProgram('many-locks.mjs', [], ['--expose-gc'], 60_000);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const { opening } = JSON.parse(stdout) as { opening: number[] };
  // The quickest part of each: the one that other programs of the machine delayed least.
  const first = Math.min(...opening.slice(0, SOME));
  const last = Math.min(...opening.slice(-SOME));
  console.log(
    `opening a lock: ${(1000 * first).toFixed(1)} µs at first, ${(1000 * last).toFixed(1)} µs at last`,
  );
  expect(last).toBeLessThan(SLOWER * first);
});
