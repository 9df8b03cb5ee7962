import { describe, expect, it } from 'vitest';
import type { EngineUnderTest, Suite } from '../support/engine.js';
import { runProgram } from '../support/programs.js';

interface Tally {
  /** Calls that came to their end. */
  readonly done: number;
  /** Calls that overflowed the stack. */
  readonly failed: number;
}

interface Counts extends Tally {
  readonly lost: string[];
  readonly scenes: Record<string, Tally>;
}

/** KiB, a quarter of the default: the program fills the stack some ten thousand times. */
const STACK = 256;
/**
 * Milliseconds. The program waits ten seconds for a waiter that is not served. Otherwise it takes a few seconds in all,
 * and many more on a busy machine.
 */
const LONGEST = 120_000;

async function countsOf(engine: EngineUnderTest, part: 'all' | 'uncontended'): Promise<Counts> {
  const nodeOptions = [...(engine.nodeOptions ?? []), `--stack-size=${STACK}`];
  const { code, stdout } = await runProgram('stack-limit.mjs', [engine.name, part], nodeOptions, LONGEST);
  expect(code).toBe(0);
  const counts = JSON.parse(stdout) as Counts;
  expect(counts.lost).toEqual([]);
  // Otherwise the calls were not near a stack overflow.
  for (const [name, { done, failed }] of [
    ['uncontended', counts] as const,
    ...Object.entries(counts.scenes),
  ]) {
    expect(done, name).toBeGreaterThan(0);
    expect(failed, name).toBeGreaterThan(0);
  }
  return counts;
}

export const stackOverflowSuite: Suite = (_makeLock, engine) => {
  // The JavaScript engine promises less; see `test/engine/javascript/stack-limit.test.ts`.
  if (engine.name !== 'native') return;
  describe('near a stack overflow', () => {
    it('no guard is lost, and each waiter is served', { timeout: LONGEST + 10_000 }, async () => {
      const { scenes } = await countsOf(engine, 'all');
      expect(Object.keys(scenes).length).toBeGreaterThan(18);
    });
  });
};

/** The part without waiters. */
export const uncontendedOverflowSuite: Suite = (_makeLock, engine) => {
  describe('near a stack overflow', () => {
    it('no guard is lost without waiters', { timeout: LONGEST + 10_000 }, async () => {
      const { scenes } = await countsOf(engine, 'uncontended');
      expect(scenes).toEqual({});
    });
  });
};
