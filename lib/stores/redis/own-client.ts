import { LockError } from '../../common/errors.js';
import { loadClientPackage } from '../client-packages.js';
import type { RedisClient } from './client.js';
import { ignore } from './connection.js';
import type { IoRedis } from './ioredis.js';
import { endNodeRedis, type NodeRedis } from './node-redis.js';

/** A client that the store created. */
export interface OwnClient {
  readonly client: RedisClient;
  readonly end: () => void;
  /** The last connection error; undefined while connected. */
  readonly failure: () => unknown;
}

/** The client libraries, in order of preference. */
const LIBRARIES = { ioredis: ioRedis, iovalkey: ioRedis, redis: nodeRedis };
type Library = keyof typeof LIBRARIES;

/**
 * Connects with the first client library that is installed beside this package or in the working directory.
 * The client retries a failed connection forever. Throws a LockError (ERR_NO_REDIS_CLIENT) if no library is
 * installed.
 */
export function connectTo(url: string, libraries = Object.keys(LIBRARIES) as Library[]): OwnClient {
  const library = loadClientPackage(libraries);
  if (library !== undefined) return LIBRARIES[library.name](library.exports as never, url);
  throw new LockError(
    'ERR_NO_REDIS_CLIENT',
    'options.url needs one of the packages ioredis, iovalkey or redis, and none is installed',
  );
}

/** Creates a client of ioredis or of its fork iovalkey. */
function ioRedis({ Redis }: { Redis: new (url: string) => IoRedis }, url: string): OwnClient {
  const client = new Redis(url);
  return { client, end: () => client.disconnect(), failure: noteFailure(client) };
}

/**
 * Returns a function that returns the last connection error. The listener is needed anyway: without a
 * listener, ioredis prints errors, and node-redis ends the process.
 */
function noteFailure(client: IoRedis | NodeRedis): () => unknown {
  let failure: unknown;
  client.on('error', (error: unknown) => (failure = error));
  client.on('ready', () => (failure = undefined));
  return () => failure;
}

function nodeRedis(
  { createClient }: { createClient: (options: { url: string }) => NodeRedis },
  url: string,
): OwnClient {
  const client = createClient({ url });
  const failure = noteFailure(client);
  client.connect().catch(ignore);
  return { client, failure, end: () => endNodeRedis(client) };
}
