import { expect, it } from 'vitest';
import { runProgram } from '../../support/programs.js';

/** Parts of 500 locks that are the first, and the last, 5000. */
const SOME = 10;
/**
 * Measured 1 to 2: garbage collections take longer where there is more to look at. A search through all that are open
 * made 20 of it.
 */
const SLOWER = 6;

it('the last of 40,000 locks take no longer to open than the first', { timeout: 60_000 }, async () => {
  const { code, stdout, stderr } = await runProgram('many-locks.mjs', [], ['--expose-gc'], 60_000);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const { opening } = JSON.parse(stdout) as { opening: number[] };
  // The quickest part of each, which was not held up by whatever else ran on the machine.
  const first = Math.min(...opening.slice(0, SOME));
  const last = Math.min(...opening.slice(-SOME));
  console.log(
    `opening a lock: ${(1000 * first).toFixed(1)} µs at first, ${(1000 * last).toFixed(1)} µs at last`,
  );
  expect(last).toBeLessThan(SLOWER * first);
});
