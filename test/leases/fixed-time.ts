import { LeaseManager, MemoryLeaseStore, type WarningLeaseManagerOptions } from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { turns } from '../support/waiting.js';
import { FaultyStore } from './faulty-store.js';

/** A manager on a memory store, both on one clock that stands still until a test advances it. Leases last for 300 ms. */
export function onFixedClock(options: WarningLeaseManagerOptions = {}): {
  clock: FixedClock;
  manager: LeaseManager;
} {
  const clock = new FixedClock(5000);
  const store = new MemoryLeaseStore({ clock });
  return { clock, manager: new LeaseManager({ store, clock, ttl: 300, ...options }) };
}

/**
 * The same on a store that can fail, with a way to let time pass, a millisecond at a time, with a turn of the event
 * loop after each.
 */
export function onFaultyStore(options: WarningLeaseManagerOptions = {}): {
  clock: FixedClock;
  store: FaultyStore;
  manager: LeaseManager;
  pass: (milliseconds: number) => Promise<void>;
} {
  const clock = new FixedClock();
  const store = new FaultyStore(clock);
  const pass = async (milliseconds: number): Promise<void> => {
    for (let i = 0; i < milliseconds; i++) {
      clock.advance(1);
      await turns(1);
    }
  };
  return { clock, store, manager: new LeaseManager({ store, clock, ttl: 300, ...options }), pass };
}
