import type { Names } from '../../common/checks.js';
import { invalidArgType, outOfRange } from '../../common/errors.js';
import type { HostUrl } from '../../common/types.js';
import {
  checkNonEmpty,
  type ClosableLeaseStore,
  type AbandonmentLeaseStore,
  type InfoLeaseStore,
  type LeaseStore,
  type ReopenableLeaseStore,
  type WakingLeaseStore,
} from '../../lease/contract/lease-store.js';
import type { ListingLeaseStore } from '../../lease/contract/listing.js';
import type { SeveralKeysLeaseStore } from '../../lease/contract/several-keys.js';
import type { SharedLeaseStore } from '../../lease/contract/shared.js';
import { clientFrom, reopenedBy } from '../reopen.js';
import { checkTerms, SeveralServerStore } from '../server-store.js';
import { DynamodbBackend } from './backend.js';
import { checkClient } from './client.js';

const REOPEN = { module: 'stripelock/dynamodb', name: 'reopenDynamodbLeaseStore' };
const DEFAULT_TABLE = 'stripelock_leases';
/** The default and the maximum of the option `skew`, in milliseconds. */
const DEFAULT_SKEW = 1000;
const MOST_SKEW = 60_000;

/**
 * A `DynamoDB` of `@aws-sdk/client-dynamodb` 3. A `DynamoDBClient` is not enough, because it lacks the
 * methods below.
 */
export interface DynamodbClient {
  /** The client's stack of middleware. The store adds a middleware to it. */
  readonly middlewareStack: object;
  /** Reads an item. */
  getItem: (...args: never[]) => unknown;
  /** Writes an item. */
  putItem: (...args: never[]) => unknown;
  /** Writes several items, or none. */
  transactWriteItems: (...args: never[]) => unknown;
  /** Reads all items, for `list`. */
  scan: (...args: never[]) => unknown;
}

/** Options of `dynamodbLeaseStore` (`stripelock/dynamodb`). */
export interface DynamodbLeaseStoreOptions {
  /** A `DynamoDB` of `@aws-sdk/client-dynamodb` 3. The store never closes it. */
  client: DynamodbClient;
  /**
   * The name or ARN of the table. Its partition key must be the string `name`. Default "stripelock_leases".
   */
  table?: string;
  /** Milliseconds by which the clocks of the service's machines may differ; at most 60_000. Default 1000. */
  skew?: number;
  /** Milliseconds after which an operation without an answer fails. Default 1000. */
  timeout?: number;
  /** How much faster the service's clocks may run than a holder's, as a fraction. Default 0.001. */
  drift?: number;
  /**
   * The URL or path of a module whose default export is a function. The function returns another client of
   * the same kind, or a promise for such a client. Only background renewal needs this option: the renewing
   * thread calls the function.
   */
  clientModule?: string | HostUrl;
}

const NAMES: Names<DynamodbLeaseStoreOptions> = {
  client: true,
  table: true,
  skew: true,
  clientModule: true,
  timeout: true,
  drift: true,
};

/**
 * Leases in DynamoDB, for processes on many machines. Experimental: this store has never run on the service
 * itself. The `Date` header of the service's answers decides when a lease expires. An operation rejects with
 * LeaseStoreError if the service fails or does not answer within `timeout`. A grant that arrives after
 * `timeout` is given back.
 *
 * A release wakes a waiting acquisition of the same store object. Acquisitions of other store objects poll.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options.
 */
export function dynamodbLeaseStore(
  options: DynamodbLeaseStoreOptions,
): WakingLeaseStore &
  SeveralKeysLeaseStore &
  InfoLeaseStore &
  ReopenableLeaseStore &
  AbandonmentLeaseStore &
  SharedLeaseStore &
  ListingLeaseStore &
  ClosableLeaseStore {
  const terms = checkTerms(options, NAMES);
  const { client, clientModule, table, skew, timeout, drift } = options;
  const name = table === undefined ? DEFAULT_TABLE : checkNonEmpty(table, 'options.table');
  const source = reopenedBy(REOPEN, clientModule, { table, skew, timeout, drift });
  const backend = new DynamodbBackend(checkClient(client), name, checkSkew(skew));
  return new SeveralServerStore(backend, terms, source);
}

function checkSkew(skew: unknown): number {
  if (skew === undefined) return DEFAULT_SKEW;
  if (typeof skew !== 'number') throw invalidArgType('options.skew', 'a number', skew);
  if (Number.isInteger(skew) && skew >= 0 && skew <= MOST_SKEW) return skew;
  throw outOfRange('options.skew', `an integer from 0 to ${MOST_SKEW}`, skew);
}

/** The options that another thread needs to create a client and a store on it. */
interface ReopenedOptions extends Pick<DynamodbLeaseStoreOptions, 'table' | 'skew' | 'timeout' | 'drift'> {
  /** The module whose default export returns the client. */
  clientModule: string;
}

/**
 * Creates a client from a `clientModule` (see {@link DynamodbLeaseStoreOptions}), and a store on that client.
 * Called by the thread that renews leases in the background.
 *
 * @internal
 */
export async function reopenDynamodbLeaseStore({
  clientModule,
  ...rest
}: ReopenedOptions): Promise<LeaseStore> {
  return dynamodbLeaseStore({ ...rest, client: await clientFrom<DynamodbClient>(clientModule) });
}
