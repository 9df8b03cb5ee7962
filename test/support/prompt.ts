import { expect } from 'vitest';

/**
 * A bound in time holds on a machine that has a processor to spare when a thread is to run. Test machines may
 * have none for tens of milliseconds at a time, so only the median has to keep the bound, and each single round
 * one that is this many times looser. What breaks such a promise breaks it by far more: a missed wake-up or a
 * circle that nobody sees lasts for as long as the acquisition has time, which here is for ever.
 */
const SLACK = 20;

export function expectPrompt(what: string, milliseconds: readonly number[], bound: number): void {
  expect(milliseconds.length, `rounds of: ${what}`).toBeGreaterThan(0);
  const sorted = milliseconds.toSorted((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)]!;
  const worst = sorted.at(-1)!;
  console.log(`${what}: median ${median.toFixed(1)} ms, worst ${worst.toFixed(1)} ms of ${sorted.length}`);
  expect(median, `${what}: median`).toBeLessThan(bound);
  expect(worst, `${what}: worst`).toBeLessThan(bound * SLACK);
}
