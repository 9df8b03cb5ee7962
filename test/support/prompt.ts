import { availableParallelism, loadavg } from 'node:os';
import { expect } from 'vitest';

/**
 * A bound in time holds where a thread that is to run gets a processor. Where other programs want several
 * processors' worth of each, it gets its share only, and everything takes so many times longer: 1 on a machine
 * that is free, and where nobody knows (Windows).
 */
function competition(): number {
  return Math.max(1, loadavg()[0]! / availableParallelism());
}

/**
 * Even so a thread may now and then have no processor for tens of milliseconds, so only the median has to keep the
 * bound, and each single round one that is this many times looser. What breaks such a promise breaks it by far more:
 * a missed wake-up or a cycle that nobody sees lasts for as long as the acquisition has time, which is for ever.
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
