import { LockError } from '../../common/errors.js';
import { endNodeRedis, type IoRedis, type NodeRedis, type RedisClient } from './client.js';

/** A client that the store has made itself, and how to end it. */
export interface OwnClient {
  readonly client: RedisClient;
  readonly end: () => void;
  /** Why there is no connection, as far as known; undefined while there is one. */
  readonly failure: () => unknown;
}

const ignore = (): void => undefined;

/** The client libraries, in the order in which they are looked for. */
const LIBRARIES = { ioredis: ioRedis, iovalkey: ioRedis, redis: nodeRedis };
type Library = keyof typeof LIBRARIES;

/**
 * Connects to the server with the first of the client libraries that is installed beside this package, or in the folder
 * of the process. Throws a LockError (ERR_NO_REDIS_CLIENT) if there is none. A connection that fails is tried again for
 * ever.
 */
export function connectTo(url: string, libraries = Object.keys(LIBRARIES) as Library[]): OwnClient {
  // Not imported: see `binaries.ts`.
  const { createRequire } = process.getBuiltinModule('node:module');
  // In a CommonJS bundle of esbuild `import.meta` is empty.
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
    if ((error as { code?: unknown }).code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

/** ioredis, and its fork iovalkey. */
function ioRedis({ Redis }: { Redis: new (url: string) => IoRedis }, url: string): OwnClient {
  const client = new Redis(url);
  return { client, end: () => client.disconnect(), failure: noteFailure(client) };
}

/** Operations report what fails. Without a listener for errors, ioredis prints them, and node-redis ends the process. */
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
