/**
 * Leases in DynamoDB, for many machines. Experimental.
 *
 * @module stripelock/dynamodb
 */

export {
  dynamodbLeaseStore,
  type DynamodbClient,
  type DynamodbLeaseStoreOptions,
} from './stores/dynamodb/store.js';
/** @internal */
export { reopenDynamodbLeaseStore } from './stores/dynamodb/store.js';
