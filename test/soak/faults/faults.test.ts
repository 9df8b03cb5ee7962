import { describe, expect, it, vi } from 'vitest';
import { reportMissing } from '../../support/requirements.js';
import { seedFor } from '../../support/seed.js';
import { PLANTS } from './planted.mjs';
import { runScenario } from './run-scenario.mjs';
import { revealing, scenariosOf } from './scenarios.mjs';
import { loadStore, storeNames } from './store-faults.mjs';

/** The violation that must reveal a planted bug. Which shows first depends on who asks before the store forgets. */
const found: Record<string, RegExp> = {
  'release-without-compare': /held key together/,
  'plain-counter': /^key: (?:token \d+ .* came after|write \d+ .* an accepted one was lost$)/,
  'deadline-from-reply': /held key together/,
  'never-abandoned': /^key: holder \d did not see that holder \d had abandoned token \d+$/,
  'always-abandoned': /had abandoned token \d+, which was released$/,
  'reader-frees-all': /held key together/,
  'readers-not-put-off': /nobody takes a lease any more/,
};

/** Milliseconds: only what hangs. Scenarios take longer on a busy machine, and report themselves what comes too late. */
const TIMEOUT = 1_200_000;
/** Scenarios at once, each in a separate world. They mostly wait for leases to expire, but each has some processes. */
const AT_ONCE = 6;
/** Keeps the whole machine busy by itself, so it is played alone, after the others. */
const ALONE = 'two thousand wait';

vi.setConfig({ testTimeout: TIMEOUT, maxConcurrency: AT_ONCE });

const kinds = await Promise.all(storeNames.map(async (name) => ({ name, kind: await loadStore(name) })));
const present = kinds.filter(({ kind }) => kind.missing === undefined);

for (const { kind } of kinds) {
  if (kind.missing) reportMissing(`${kind.title} under faults`, kind.missing.what, kind.missing.advice);
}

async function holds(store: string, name: string): Promise<void> {
  const { violations, broken, counts } = await runScenario(name, {
    store,
    seed: seedFor(`${store}: ${name}`),
  });
  for (const promise of broken) console.log(`not ours, ${store} broke its promise: ${promise}`);
  expect(violations, violations.join('\n')).toEqual([]);
  expect(counts.grants).toBeGreaterThan(0);
}

// Every scenario on every store, and that the checker finds each planted bug.
for (const { name: store, kind } of present) {
  describe.concurrent(kind.title, () => {
    const together = Object.keys(scenariosOf(kind)).filter((name) => name !== ALONE);
    it.each(together)('holds what it promises when %s', (name) => holds(store, name));

    it.each(PLANTS)('would not pass with this bug: %s', async (plant) => {
      const scenario = revealing[plant]!;
      const { violations } = await runScenario(scenario, {
        store,
        seed: seedFor(`${store}: ${plant}`),
        plant,
      });
      expect(violations).toContainEqual(expect.stringMatching(found[plant]!));
    });
  });
}

for (const { name: store, kind } of present) {
  describe(`${kind.title}, alone on the machine,`, () => {
    it(`holds what it promises when ${ALONE}`, () => holds(store, ALONE));
  });
}
