/**
 * What tests of a lease store need: a clock that does not run by itself, and the contract of stores.
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
