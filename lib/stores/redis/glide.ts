import type { ReleaseListener } from '../wakers.js';
import { ignore, SCANNED, scannedIn, type Listen, type RedisConnection, type Scan } from './connection.js';
import type { Script } from './scripts.js';

/** Milliseconds after which a subscription counts as failed if the server has not confirmed it. */
const CONFIRMED_WITHIN = 5000;
/**
 * GLIDE replaces the first word of an error reply with a name. This table maps these names back to the
 * server's words.
 */
const WORDS: readonly (readonly [name: RegExp, word: string])[] = [
  [/^.*- NoScriptError: /, 'NOSCRIPT '],
  [/^.*- Moved: /, 'MOVED '],
  [/^.*- Ask: /, 'ASK '],
  [/^.*- CrossSlot: /, 'CROSSSLOT '],
  [/^.*- PermissionDenied: /, 'NOPERM '],
];

/**
 * SCAN as a script, because scripts run on the primary. A client that reads from replicas could send each
 * SCAN command to a different replica, but a cursor is valid only on the replica that returned it.
 */
const SCAN = `return redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ${SCANNED})`;

/** One server of a cluster, or all servers that have slots. */
type Route =
  'allPrimaries' | { readonly type: 'routeByAddress'; readonly host: string; readonly port: number };

/** The reply of one of several servers. */
interface ServerReply {
  /** The address of the server: the host, a colon and the port. */
  readonly key: unknown;
}

/** A client of `@valkey/valkey-glide`. */
export interface Glide {
  customCommand(args: string[], options?: { readonly route: Route }): Promise<unknown>;
  /** Subscribes to channels. Old versions lack this method. */
  subscribe?(channels: readonly string[], timeout: number): Promise<unknown>;
  getPubSubMessage(): Promise<{ readonly message: unknown }>;
  close(): void;
}

/**
 * A client of Valkey GLIDE. Such a client cannot duplicate itself, so `another` creates the client that
 * subscribes to releases.
 */
export class GlideConnection implements RedisConnection {
  readonly isCluster: boolean;
  readonly listen?: Listen;
  readonly #client: Glide;

  constructor(client: Glide, another: (() => Promise<Glide>) | undefined) {
    this.#client = client;
    // Only a client for clusters has sharded channels.
    this.isCluster = 'pubsubShardChannels' in client;
    if (another !== undefined && typeof client.subscribe === 'function') {
      this.listen = (channel, listener) => listenOn(another, channel, listener);
    }
  }

  run(
    { sha, source }: Script,
    keys: readonly string[],
    args: readonly string[],
    bySource: boolean,
  ): Promise<unknown> {
    const command = bySource ? ['EVAL', source] : ['EVALSHA', sha];
    return this.#send([...command, String(keys.length), ...keys, ...args]);
  }

  async scans(): Promise<readonly Scan[] | undefined> {
    const routes = this.isCluster ? await this.#routes() : [undefined];
    return routes.map((route) => async (cursor, pattern) => {
      return scannedIn(await this.#send(['EVAL', SCAN, '0', cursor, pattern], route));
    });
  }

  /** The routes to all primaries of the cluster, with the addresses that the client uses. */
  async #routes(): Promise<readonly Route[]> {
    const replies = await this.#send(['EVAL', 'return 1', '0'], 'allPrimaries');
    return (replies as readonly ServerReply[]).map(({ key }) => {
      const address = String(key);
      const colon = address.lastIndexOf(':');
      return {
        type: 'routeByAddress',
        host: address.slice(0, colon),
        port: Number(address.slice(colon + 1)),
      };
    });
  }

  async #send(command: string[], route?: Route): Promise<unknown> {
    try {
      const sent = this.#client.customCommand(command, ...(route === undefined ? [] : [{ route }]));
      return await sent;
    } catch (error) {
      throw asReplied(error);
    }
  }
}

/** Replaces the client's name of an error with the server's word for it. */
function asReplied(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  for (const [name, word] of WORDS) {
    if (name.test(error.message)) return new Error(error.message.replace(name, word), { cause: error });
  }
  return error;
}

/**
 * Subscribes to a channel. The client itself renews an interrupted subscription, and does not report the
 * interruption. Polling covers releases that are missed during the interruption.
 */
function listenOn(
  another: () => Promise<Glide>,
  channel: string,
  { released, subscribed, lost }: ReleaseListener,
): () => void {
  let client: Glide | undefined;
  let closed = false;
  const listen = async (): Promise<void> => {
    client = await another();
    try {
      if (!closed) await client.subscribe!([channel], CONFIRMED_WITHIN);
      if (!closed) subscribed();
      for (;;) {
        if (closed) return;
        const { message } = await client.getPubSubMessage();
        released(String(message));
      }
    } finally {
      client.close();
    }
  };
  listen().catch(lost).catch(ignore);
  return () => {
    closed = true;
    // Closing the client also ends a pending `getPubSubMessage`.
    client?.close();
  };
}
