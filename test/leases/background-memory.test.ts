import { describe } from 'vitest';
import { MemoryLeaseStore } from 'stripelock';
import { describeBackground } from './background.js';

/** A thread renews it, and gets its turn late on a busy machine. */
const TTL = 1000;

describe('renewal in the background, in memory', () => {
  const stores: MemoryLeaseStore[] = [];
  describeBackground(() => {
    // It stays open as long as the tests run: a handle alone does not keep its leases.
    const store = new MemoryLeaseStore();
    stores.push(store);
    return { handle: store.handle };
  }, TTL);
});
