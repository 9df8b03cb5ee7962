import { describe, expect, it } from 'vitest';
import { cacheLeaseStore } from 'stripelock/cache';
import { FixedClock, leaseStoreContract } from 'stripelock/testing';
import { clientOf, FakeCache } from '../support/fake-cache.js';

// Tests run side by side, each with a separate cache: they mostly wait for leases to expire.
leaseStoreContract({ describe: describe.concurrent, it, expect }, 'cache store, three clients', () => {
  const cache = new FakeCache();
  const stores = [1, 2, 3].map(() => cacheLeaseStore(clientOf(cache)));
  return { store: stores[0]!, peers: stores.slice(1), keepsInfo: true };
});

leaseStoreContract({ describe, it, expect }, 'cache store on a fixed clock, three clients', () => {
  const clock = new FixedClock(1_700_000_000_000);
  const cache = new FakeCache(() => clock.now());
  const stores = [1, 2, 3].map(() => cacheLeaseStore({ ...clientOf(cache), clock }));
  return {
    store: stores[0]!,
    peers: stores.slice(1),
    advance: (milliseconds) => clock.advance(milliseconds + 20),
    keepsInfo: true,
  };
});
