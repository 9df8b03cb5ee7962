import { invalidArgType, outOfRange } from '../../common/errors.js';
import type { HostUrl } from '../../common/types.js';
import { checkNonEmpty, type LeaseStoreSource } from '../../lease/contract/lease-store.js';
import { moduleUrl } from '../reopen.js';
import type { RedisClient } from './client.js';

interface CommonOptions {
  /** Put before every key; without braces. Default "stripelock:". */
  prefix?: string;
  /** Milliseconds after which an operation without an answer fails. Default 1000. */
  timeout?: number;
  /** By how much the server's clock may run faster than a holder's, as a fraction. Default 0.001. */
  drift?: number;
}

/** For a store on a client of the caller's. */
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
  /** Of the server: `redis://` or `rediss://`, with user, password and database. Allows renewal in the background. */
  url: string;
  /** Only without a URL. */
  client?: undefined;
}

/** How another thread makes such a store, with a client of its own. */
export function sourceFrom(options: RedisLeaseStoreOptions | RedisUrlOptions): LeaseStoreSource | undefined {
  const { prefix, timeout, drift } = options;
  const module = 'stripelock/redis';
  if (options.url !== undefined) {
    const url = checkUrl(options.url);
    if ((options.client as unknown) !== undefined) {
      throw invalidArgType('options.client', 'left out where options.url is given', options.client);
    }
    return { module, name: 'redisLeaseStore', options: { url, prefix, timeout, drift } };
  }
  if (options.clientModule === undefined) return undefined;
  const clientModule = moduleUrl(options.clientModule);
  return { module, name: 'reopenRedisLeaseStore', options: { clientModule, prefix, timeout, drift } };
}

function checkUrl(url: unknown): string {
  const text = checkNonEmpty(url, 'options.url');
  if (/^rediss?:\/\//i.test(text)) return text;
  // The rest may contain a password.
  throw outOfRange('options.url', 'a URL that begins with redis:// or rediss://', /^[a-z+]*/i.exec(text)![0]);
}
