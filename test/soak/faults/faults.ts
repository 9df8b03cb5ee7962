import { describe, expect, it, vi } from 'vitest';
import { seedFor } from '../../support/seed.js';
import { PLANTS } from './planted.mjs';
import { runScenario } from './run-scenario.mjs';
import { revealing, scenarios } from './scenarios.mjs';

/** The violation that must reveal a planted bug. */
const found: Record<string, RegExp> = {
  'release-without-compare': /held key together/,
  'plain-counter': /^key: token \d+ .* came after/,
  'deadline-from-reply': /held key together/,
};

/** Milliseconds: each starts processes, which a busy machine does slowly. */
const TIMEOUT = 180_000;
/** Scenarios at once, each in a world of its own. They mostly wait for leases to expire, but each has some processes. */
const AT_ONCE = 4;
/** Keeps the whole machine busy by itself, so it is played alone, after the others. */
const ALONE = 'two thousand wait';

/** Every scenario on a store, and that the checker finds each planted bug. */
export function describeFaults(title: string, store: 'redis' | 'sqlite'): void {
  vi.setConfig({ testTimeout: TIMEOUT, maxConcurrency: AT_ONCE });
  describe.concurrent(title, () => defineFaults(store));
}

function defineFaults(store: 'redis' | 'sqlite'): void {
  const holds = async (name: string): Promise<void> => {
    const { violations, counts } = await runScenario(name, { store, seed: seedFor(name) });
    expect(violations, violations.join('\n')).toEqual([]);
    expect(counts.grants).toBeGreaterThan(0);
  };
  const together = Object.keys(scenarios[store]!).filter((name) => name !== ALONE);
  it.each(together)('holds what it promises when %s', holds);

  it.each(PLANTS)('would not pass with this bug: %s', async (plant) => {
    const scenario = revealing[plant]!;
    const { violations } = await runScenario(scenario, { store, seed: seedFor(plant), plant });
    expect(violations).toContainEqual(expect.stringMatching(found[plant]!));
  });

  it(`holds what it promises when ${ALONE}`, { concurrent: false }, () => holds(ALONE));
}
