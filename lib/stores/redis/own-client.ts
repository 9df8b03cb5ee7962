import { codeOf, LockError } from '../../common/errors.js';
import { endNodeRedis, type IoRedis, type NodeRedis, type RedisClient } from './client.js';

/** A client that the store created. */
export interface OwnClient {
  readonly client: RedisClient;
  readonly end: () => void;
  /** The last connection error; undefined while connected. */
  readonly failure: () => unknown;
}

const ignore = (): void => undefined;

/** The client libraries, in order of preference. */
const LIBRARIES = { ioredis: ioRedis, iovalkey: ioRedis, redis: nodeRedis };
type Library = keyof typeof LIBRARIES;

/**
 * Connects with the first client library that is installed beside this package or in the working directory. The client
 * retries a failed connection forever. Throws a LockError (ERR_NO_REDIS_CLIENT) if no library is installed.
 */
export function connectTo(url: string, libraries = Object.keys(LIBRARIES) as Library[]): OwnClient {
  // Loaded lazily: see `binaries.ts`.
  const { createRequire } = process.getBuiltinModule('node:module');
  // In a CommonJS bundle made by esbuild, `import.meta` is empty.
  const here = import.meta.url as string | undefined;
  for (const from of [here, `${process.cwd()}/`]) {
    if (from === undefined) continue;
    const load = createRequire(from);
    for (const name of libraries) {
      const library = loadedBy(load, name);
      if (library !== undefined) return LIBRARIES[name](library as never, url);
    }
  }
  throw new LockError(
    'ERR_NO_REDIS_CLIENT',
    'options.url needs one of the packages ioredis, iovalkey or redis, and none is installed',
  );
}

function loadedBy(load: NodeJS.Require, name: string): unknown {
  try {
    return load(name) as unknown;
  } catch (error) {
    if (codeOf(error) === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

/** ioredis and its fork iovalkey. */
function ioRedis({ Redis }: { Redis: new (url: string) => IoRedis }, url: string): OwnClient {
  const client = new Redis(url);
  return { client, end: () => client.disconnect(), failure: noteFailure(client) };
}

/**
 * Operations report their own failures. Without an `error` listener, ioredis prints errors and node-redis ends the
 * process.
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
