import { expect } from 'vitest';
import { competition } from './competition.mjs';

/**
 * Beside {@link competition}, a thread may get no processor for tens of milliseconds now and then. So the median must stay
 * within the limit, and each single round within a limit that is larger by a fixed factor. A fault exceeds it by far: a missed
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
