import type { Names } from '../../common/checks.js';
import { invalidArgType, outOfRange } from '../../common/errors.js';
import type { HostUrl } from '../../common/types.js';
import {
  checkNonEmpty,
  type ClosableLeaseStore,
  type AbandonmentLeaseStore,
  type InfoLeaseStore,
  type LeaseStore,
  type LeaseStoreSource,
  type ReopenableLeaseStore,
  type WakingLeaseStore,
} from '../../lease/contract/lease-store.js';
import type { ListingLeaseStore } from '../../lease/contract/listing.js';
import type { SeveralKeysLeaseStore } from '../../lease/contract/several-keys.js';
import type { SharedLeaseStore } from '../../lease/contract/shared.js';
import { clientFrom, moduleUrl, reopenedBy } from '../reopen.js';
import { checkTerms, SeveralServerStore } from '../server-store.js';
import { RedisBackend } from './backend.js';
import type { RedisClient } from './client.js';
import { connectTo } from './own-client.js';

const MODULE = 'stripelock/redis';
const DEFAULT_PREFIX = 'stripelock:';

interface CommonOptions {
  /** The text before the name of every key. It must not contain braces. Default "stripelock:". */
  prefix?: string;
  /** Milliseconds after which an operation without an answer fails. Default 1000. */
  timeout?: number;
  /** How much faster the server's clock may run than a holder's, as a fraction. Default 0.001. */
  drift?: number;
}

/** Options of `redisLeaseStore` (`stripelock/redis`) with the caller's client. */
export interface RedisLeaseStoreOptions extends CommonOptions {
  /**
   * A client from `ioredis`, `iovalkey`, `redis` (node-redis, connected) or `@valkey/valkey-glide`, for a
   * single server or a cluster; or a client from `@upstash/redis`. The store never closes the client.
   */
  client: RedisClient;
  /**
   * The URL or path of a module whose default export is a function. The function returns another client of
   * the same kind, or a promise for such a client. Background renewal needs this option: the renewing thread
   * calls the function. With `@valkey/valkey-glide`, the store also calls the function to create a second
   * client that is notified of releases, and later closes that client. Without this option, waiters on
   * `@valkey/valkey-glide` poll.
   */
  clientModule?: string | HostUrl;
  /** Not allowed together with `client`. */
  url?: undefined;
}

/**
 * Options for a store that creates its own client, from the first installed package of `ioredis`, `iovalkey`
 * and `redis`.
 */
export interface RedisUrlOptions extends CommonOptions {
  /**
   * The server's URL: `redis://` or `rediss://`, with user, password and database. Supports background
   * renewal.
   */
  url: string;
  /** Not allowed together with `url`. */
  client?: undefined;
}

const NAMES: Names<RedisLeaseStoreOptions | RedisUrlOptions> & { readonly clientModule: true } = {
  client: true,
  clientModule: true,
  url: true,
  prefix: true,
  timeout: true,
  drift: true,
};

/**
 * Leases in Redis or Valkey, for processes on many machines. Each operation runs one script, so it takes one
 * round trip. The server's clock decides when a lease expires. An operation rejects with LeaseStoreError if
 * the server fails or does not answer within `timeout`. A grant that arrives after `timeout` is given back.
 * If a client for a single server is connected to a node of a cluster, operations on keys of other nodes
 * reject with a LockError (ERR_REDIS_CLUSTER).
 *
 * A release wakes waiting acquisitions. For this, the store keeps a second connection open while managers
 * wait, and the server sends notifications on that connection. `close` ends the second connection, and also
 * ends a client that the store created from a URL.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options. Throws a
 * LockError (ERR_NO_REDIS_CLIENT) if `url` is given but no client library is installed.
 */
export function redisLeaseStore(
  options: RedisLeaseStoreOptions | RedisUrlOptions,
): WakingLeaseStore &
  SeveralKeysLeaseStore &
  InfoLeaseStore &
  ReopenableLeaseStore &
  AbandonmentLeaseStore &
  ListingLeaseStore &
  SharedLeaseStore &
  ClosableLeaseStore {
  const terms = checkTerms(options, NAMES);
  const prefix = checkPrefix(options.prefix);
  const source = sourceFrom(options);
  const own = options.url === undefined ? undefined : connectTo(options.url);
  const module = options.url === undefined ? options.clientModule : undefined;
  const another = module === undefined ? undefined : () => clientFrom<RedisClient>(moduleUrl(module));
  return new SeveralServerStore(new RedisBackend(options.client, own, prefix, another), terms, source);
}

/** The options that another thread needs to create a client and a store on it. */
interface ReopenedOptions extends Omit<RedisLeaseStoreOptions, 'client' | 'clientModule'> {
  /** The module whose default export returns the client. */
  clientModule: string;
}

/**
 * Creates a client from a `clientModule` (see {@link RedisLeaseStoreOptions}), and a store on it. Called by
 * the thread that renews leases in the background.
 *
 * @internal
 */
export async function reopenRedisLeaseStore({ clientModule, ...rest }: ReopenedOptions): Promise<LeaseStore> {
  return redisLeaseStore({ ...rest, client: await clientFrom<RedisClient>(clientModule) });
}

/** Describes how another thread opens the same store with a separate client. */
function sourceFrom(options: RedisLeaseStoreOptions | RedisUrlOptions): LeaseStoreSource | undefined {
  const { prefix, timeout, drift } = options;
  if (options.url !== undefined) {
    const url = checkUrl(options.url);
    if ((options.client as unknown) !== undefined) {
      throw invalidArgType('options.client', 'left out where options.url is given', options.client);
    }
    return { module: MODULE, name: 'redisLeaseStore', options: { url, prefix, timeout, drift } };
  }
  const reopen = { module: MODULE, name: 'reopenRedisLeaseStore' };
  return reopenedBy(reopen, options.clientModule, { prefix, timeout, drift });
}

function checkUrl(url: unknown): string {
  const text = checkNonEmpty(url, 'options.url');
  // The password may be anywhere in the text, and error messages must not contain it. So the URL is checked
  // here, before a library could throw an error with the whole text.
  const scheme = /^([a-z][a-z\d+.-]*):\/\//i.exec(text)?.[1] ?? 'another text';
  if (!/^rediss?$/i.test(scheme)) {
    throw outOfRange('options.url', 'a URL that begins with redis:// or rediss://', scheme);
  }
  if (URL.canParse(text)) return text;
  throw outOfRange(
    'options.url',
    'a valid URL, with special characters of the password percent-encoded',
    'one that is not',
  );
}

function checkPrefix(prefix: unknown): string {
  if (prefix === undefined) return DEFAULT_PREFIX;
  if (typeof prefix !== 'string') throw invalidArgType('options.prefix', 'a string', prefix);
  if (/[{}]/.test(prefix)) throw outOfRange('options.prefix', 'a string without braces', prefix);
  return prefix;
}
