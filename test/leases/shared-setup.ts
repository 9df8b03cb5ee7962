import { onTestFinished } from 'vitest';
import { LeaseManager, type SharedLeaseStore, type WarningLeaseManagerOptions } from 'stripelock';

export const SHARED = { mode: 'shared' } as const;
/** Milliseconds that no test waits for. */
export const PATIENT = 600_000;
export const TTL = 300;

/** A manager for one test, whose waiters poll often. */
export function managerOn(store: SharedLeaseStore, options: WarningLeaseManagerOptions = {}): LeaseManager {
  const manager = new LeaseManager({ store, backoff: { initial: 5, max: 20 }, ...options });
  onTestFinished(() => manager.close());
  return manager;
}
