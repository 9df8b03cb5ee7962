import type { Names } from '../../common/checks.js';
import { invalidArgType, outOfRange } from '../../common/errors.js';
import type { HostUrl } from '../../common/types.js';
import {
  checkNonEmpty,
  type ClosableLeaseStore,
  type ExactLeaseStore,
  type InfoLeaseStore,
  type LeaseStore,
  type LeaseStoreSource,
  type ReopenableLeaseStore,
  type WakingLeaseStore,
} from '../../lease/contract/lease-store.js';
import type { SeveralKeysLeaseStore } from '../../lease/contract/several-keys.js';
import { clientFrom, reopenedBy } from '../reopen.js';
import { checkTerms, SeveralServerStore } from '../server-store.js';
import { RedisBackend } from './backend.js';
import type { RedisClient } from './client.js';
import { connectTo } from './own-client.js';

const MODULE = 'stripelock/redis';
const DEFAULT_PREFIX = 'stripelock:';

interface CommonOptions {
  /** Put before every key; without braces. Default "stripelock:". */
  prefix?: string;
  /** Milliseconds after which an operation without an answer fails. Default 1000. */
  timeout?: number;
  /** How much faster the server's clock may run than a holder's, as a fraction. Default 0.001. */
  drift?: number;
}

/** For `redisLeaseStore` of `stripelock/redis`, on a client of the caller's. */
export interface RedisLeaseStoreOptions extends CommonOptions {
  /** A client of `ioredis`, `iovalkey` or `redis` (node-redis, connected), single or of a cluster. It stays the caller's. */
  client: RedisClient;
  /**
   * The URL or path of a module whose default export is a function that makes another such client, or a promise of one.
   * Only renewal in the background needs it: the thread that renews calls it.
   */
  clientModule?: string | HostUrl;
  /** Only without a client. */
  url?: undefined;
}

/** For a store that connects by itself, with the first of `ioredis`, `iovalkey` and `redis` that is installed. */
export interface RedisUrlOptions extends CommonOptions {
  /** The URL of the server: `redis://` or `rediss://`, with user, password and database. Allows renewal in the background. */
  url: string;
  /** Only without a URL. */
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
 * Leases in Redis or Valkey, for the processes of many machines. Each operation is one script, one round trip; the server
 * judges expiry. An operation rejects with LeaseStoreError if the server fails, or does not answer within `timeout`. A
 * grant that is answered later is given back.
 *
 * A release wakes acquisitions that wait in managers, through a second connection that the store makes from the client
 * while anybody waits. `close` ends that connection, and the client if the store has made it from a URL.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options, a LockError
 * (ERR_NO_REDIS_CLIENT) for a URL if no client library is installed.
 */
export function redisLeaseStore(
  options: RedisLeaseStoreOptions | RedisUrlOptions,
): WakingLeaseStore &
  SeveralKeysLeaseStore &
  InfoLeaseStore &
  ReopenableLeaseStore &
  ExactLeaseStore &
  ClosableLeaseStore {
  const terms = checkTerms(options, NAMES);
  const prefix = checkPrefix(options.prefix);
  const source = sourceFrom(options);
  const own = options.url === undefined ? undefined : connectTo(options.url);
  return new SeveralServerStore(new RedisBackend(options.client, own, prefix), terms, source);
}

/** What another thread needs to make a client, and a store on it. */
interface ReopenedOptions extends Omit<RedisLeaseStoreOptions, 'client' | 'clientModule'> {
  /** The module whose default export makes the client. */
  clientModule: string;
}

/**
 * Makes a client by a `clientModule` of {@link RedisLeaseStoreOptions}, and a store on it. The thread that renews leases in
 * the background calls it.
 *
 * @internal
 */
export async function reopenRedisLeaseStore({ clientModule, ...rest }: ReopenedOptions): Promise<LeaseStore> {
  return redisLeaseStore({ ...rest, client: await clientFrom<RedisClient>(clientModule) });
}

/** How another thread makes such a store, with a client of its own. */
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
  // Messages name no password, which may be anywhere in the text. A library's own error would contain it.
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
