import { describe, expect, it } from 'vitest';
import type { LeaseStore } from 'stripelock';
import { FixedClock, leaseStoreContract } from 'stripelock/testing';
import { codeIn } from '../../scripts/docs/markdown.mjs';
import { programsIn, textOf } from '../docs/pages.js';

// The example of a custom store, exactly as the documentation shows it.
const isStore = (code: string): boolean => code.includes('function mapLeaseStore');
const source = programsIn('docs/stores.md').find(isStore)!;
const { mapLeaseStore } = (await import(`data:text/javascript,${encodeURIComponent(source)}`)) as {
  mapLeaseStore: (options: { now: () => number }) => LeaseStore;
};

it('has fewer than 60 lines', () => {
  const { code } = codeIn(textOf('docs/stores.md'), 'ts').find((block) => isStore(block.code))!;
  expect(code.split('\n').length).toBeLessThan(60);
});

leaseStoreContract({ describe, it, expect }, 'the documented store', () => {
  const clock = new FixedClock();
  return {
    store: mapLeaseStore({ now: () => clock.now() }),
    advance: (milliseconds) => clock.advance(milliseconds),
  };
});
