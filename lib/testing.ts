export { FixedClock } from './testing/fixed-clock.js';
export {
  leaseStoreContract,
  type ContractFramework,
  type MakeStore,
  type StoreUnderTest,
} from './testing/lease-store-contract.js';
