import { describe, expect, it } from 'vitest';
import { MemoryLeaseStore } from 'stripelock';
import { FixedClock, leaseStoreContract } from 'stripelock/testing';

leaseStoreContract({ describe, it, expect }, 'memory store', () => ({
  store: new MemoryLeaseStore(),
  keepsInfo: true,
  reportsAbandonment: true,
}));

leaseStoreContract({ describe, it, expect }, 'memory store on a fixed clock', () => {
  const clock = new FixedClock(1000);
  return {
    store: new MemoryLeaseStore({ clock }),
    advance: (milliseconds) => clock.advance(milliseconds),
    keepsInfo: true,
    reportsAbandonment: true,
  };
});
