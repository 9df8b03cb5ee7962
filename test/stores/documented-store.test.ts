import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { LeaseStore } from 'stripelock';
import { FixedClock, leaseStoreContract } from 'stripelock/testing';

// The example of a custom store, exactly as the documentation shows it.
const page = readFileSync(new URL('../../docs/stores.md', import.meta.url), 'utf8');
const source = /```js\n(export function mapLeaseStore[\s\S]*?)```/.exec(page)![1]!;
const { mapLeaseStore } = (await import(`data:text/javascript,${encodeURIComponent(source)}`)) as {
  mapLeaseStore: (options: { now: () => number }) => LeaseStore;
};

it('has fewer than 60 lines', () => {
  expect(source.trim().split('\n').length).toBeLessThan(60);
});

leaseStoreContract({ describe, it, expect }, 'the documented store', () => {
  const clock = new FixedClock();
  return {
    store: mapLeaseStore({ now: () => clock.now() }),
    advance: (milliseconds) => clock.advance(milliseconds),
  };
});
