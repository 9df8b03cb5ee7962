/**
 * Utilities for testing lease stores: a clock that tests advance, and the contract that every store must
 * fulfil.
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
