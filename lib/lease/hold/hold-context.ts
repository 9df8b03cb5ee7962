import type { FencingToken } from '../contract/lease-store.js';
import type { Due, Schedule } from '../time/schedule.js';
import type { RenewalContext } from './renewal.js';

/** What a hold needs of its manager. `H`: the hold itself. */
export interface ContextOf<H extends Due> extends RenewalContext {
  /** On the manager's clock. It contains every hold that has not ended. */
  readonly schedule: Schedule<H>;
  /**
   * Whether owners outlive their leases. If so, a lost lease is not given back: the same owner may have another lease
   * of that key by now.
   */
  readonly stableOwners: boolean;
  /**
   * Whether a release reads the clock first, to distinguish an expired lease from a released one. A memory table
   * reports which it was (`Hold.notFreed`), and reading the clock would cost as much as its release.
   */
  readonly looksBeforeRelease: boolean;
  /** The token of a grant of the memory table. */
  tokenOf(granted: number): FencingToken;
  /** Frees the key in the store. Rejects with a LeaseStoreError. */
  free(hold: H): Promise<boolean>;
  /** The hold was lost. */
  lost(hold: H): void;
}
