/**
 * Utilities for testing lease stores: a manually advanced clock, and the contract of stores.
 *
 * @module stripelock/testing
 */

export { FixedClock } from './testing/fixed-clock.js';
export {
  leaseStoreContract,
  type ContractFramework,
  type Expect,
  type MakeStore,
  type StoreUnderTest,
} from './testing/lease-store-contract.js';
