import { availableParallelism, loadavg } from 'node:os';
import { expect } from 'vitest';

/**
 * The factor by which other programs slow this one down. A time limit holds if a thread gets a processor when it needs
 * one. With several programs for each processor, everything takes longer by this factor. It is 1 on a free machine, and
 * if the load is unknown (Windows).
 */
function competition(): number {
  return Math.max(1, loadavg()[0]! / availableParallelism());
}

/**
 * Even so a thread may get no processor for tens of milliseconds now and then. So the median must stay within the
 * limit, and each single round within a limit that is larger by a fixed factor. A fault exceeds it by far: a missed
 * wake-up or an undetected cycle lasts until the timeout of the acquisition, which is infinite.
 */
const SLACK = 20;

export function expectPrompt(what: string, milliseconds: readonly number[], bound: number): void {
  expect(milliseconds.length, `rounds of: ${what}`).toBeGreaterThan(0);
  const sorted = milliseconds.toSorted((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)]!;
  const worst = sorted.at(-1)!;
  const allowed = bound * competition();
  console.log(
    `${what}: median ${median.toFixed(1)} ms, worst ${worst.toFixed(1)} ms of ${sorted.length}, ` +
      `allowed ${allowed.toFixed(0)} ms`,
  );
  expect(median, `${what}: median`).toBeLessThan(allowed);
  expect(worst, `${what}: worst`).toBeLessThan(allowed * SLACK);
}
