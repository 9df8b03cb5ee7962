import { invalidArgType } from '../../common/errors.js';
import type { ReleaseListener } from '../wakers.js';
import type { Script } from './scripts.js';

const ignore = (): void => undefined;

/** The caller's client: from `ioredis`, `iovalkey` or `redis` (node-redis), for a single server or a cluster. */
export type RedisClient = object;

/**
 * Subscribes to a channel on a second connection and reconnects while the server is unreachable. The returned function
 * unsubscribes, stops reconnecting, and does not throw.
 */
type Listen = (channel: string, listener: ReleaseListener) => () => void;

interface Disconnects {
  count: number;
}

/** The client operations that the store uses, independent of the library. */
export interface RedisConnection {
  /** Runs a script by its hash, or by its source if `bySource`. */
  run(script: Script, keys: readonly string[], args: readonly string[], bySource: boolean): Promise<unknown>;
  readonly isCluster: boolean;
  /** Counts lost connections, for a client that resends unanswered commands after reconnecting. */
  readonly disconnects?: Disconnects;
  /** Undefined if the client cannot open a second connection. */
  readonly listen?: Listen;
}

export function connectionOf(client: unknown): RedisConnection {
  const candidate = (typeof client === 'object' ? client : null) as Partial<IoRedis & NodeRedis> | null;
  if (typeof candidate?.evalSha === 'function' && typeof candidate.eval === 'function') {
    return new NodeRedisConnection(candidate as NodeRedis);
  }
  if (typeof candidate?.evalsha === 'function' && typeof candidate.eval === 'function') {
    return new IoRedisConnection(candidate as IoRedis);
  }
  throw invalidArgType('options.client', 'a client of ioredis, iovalkey or redis', client);
}

export interface IoRedis {
  /** True for a cluster client. Its `duplicate` takes other arguments. */
  readonly isCluster?: boolean;
  readonly options?: { readonly keyPrefix?: string };
  evalsha(sha: string, keys: number, ...rest: string[]): Promise<unknown>;
  eval(source: string, keys: number, ...rest: string[]): Promise<unknown>;
  duplicate?(options?: object): IoRedis;
  on(event: string, listener: (...args: never[]) => void): unknown;
  subscribe(channel: string): Promise<unknown>;
  disconnect(): void;
}

/** One counter per client, so that further stores on the same client add no listeners. */
const disconnectsOf = new WeakMap<IoRedis, Disconnects>();

function countDisconnects(client: IoRedis): Disconnects {
  let disconnects = disconnectsOf.get(client);
  if (disconnects === undefined) {
    const counted = { count: 0 };
    disconnectsOf.set(client, (disconnects = counted));
    // The second event is a cluster's, when it loses a node.
    for (const event of ['close', '-node']) client.on(event, () => counted.count++);
  }
  return disconnects;
}

/** ioredis and its fork iovalkey. */
class IoRedisConnection implements RedisConnection {
  readonly isCluster: boolean;
  readonly disconnects: Disconnects;
  readonly listen?: Listen;
  readonly #client: IoRedis;

  constructor(client: IoRedis) {
    this.#client = client;
    this.isCluster = client.isCluster === true;
    this.disconnects = countDisconnects(client);
    if (typeof client.duplicate === 'function')
      this.listen = (channel, listener) => this.#listen(channel, listener);
  }

  run(
    { sha, source }: Script,
    keys: readonly string[],
    args: readonly string[],
    bySource: boolean,
  ): Promise<unknown> {
    const client = this.#client;
    return bySource
      ? client.eval(source, keys.length, ...keys, ...args)
      : client.evalsha(sha, keys.length, ...keys, ...args);
  }

  #listen(channel: string, { released, subscribed, interrupted, lost }: ReleaseListener): () => void {
    // Subscribing before the connection is up needs the offline queue. Automatic resubscribing is off: if it failed
    // because the client was closed, its rejection would be unhandled and end the process.
    const options = this.isCluster ? [] : [{ enableOfflineQueue: true, autoResubscribe: false }];
    const client = this.#client.duplicate!(...options);
    let hasBegun = false;
    // The client reconnects by itself. Polling covers lost notifications.
    client.on('error', ignore);
    // The key prefix of the client applies to keys, but not to channel names.
    const prefix = client.options?.keyPrefix ?? '';
    client.on('message', (_channel: string, message: string) => released(message.slice(prefix.length)));
    client.on('close', () => {
      if (hasBegun) interrupted();
    });
    // A release may have been missed during the interruption.
    client.on('ready', () => {
      if (hasBegun) client.subscribe(channel).then(subscribed, ignore);
    });
    client.subscribe(channel).then(() => {
      hasBegun = true;
      subscribed();
    }, lost);
    return () => client.disconnect();
  }
}

export interface NodeRedis {
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  eval(source: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  duplicate?(): NodeRedis;
  on(event: string, listener: (...args: never[]) => void): unknown;
  connect(): Promise<unknown>;
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  /** Since version 5. */
  destroy?(): void;
  disconnect(): Promise<unknown>;
}

class NodeRedisConnection implements RedisConnection {
  readonly isCluster: boolean;
  readonly listen?: Listen;
  readonly #client: NodeRedis;

  constructor(client: NodeRedis) {
    this.#client = client;
    this.isCluster = 'slots' in client;
    if (typeof client.duplicate === 'function')
      this.listen = (channel, listener) => this.#listen(channel, listener);
  }

  run(
    { sha, source }: Script,
    keys: readonly string[],
    args: readonly string[],
    bySource: boolean,
  ): Promise<unknown> {
    const given = { keys: [...keys], arguments: [...args] };
    return bySource ? this.#client.eval(source, given) : this.#client.evalSha(sha, given);
  }

  #listen(channel: string, { released, subscribed, interrupted, lost }: ReleaseListener): () => void {
    const client = this.#client.duplicate!();
    client.on('error', ignore);
    let closed = false;
    let hasBegun = false;
    // node-redis resubscribes before it emits `ready`.
    client.on('reconnecting', () => {
      if (hasBegun) interrupted();
    });
    client.on('ready', () => {
      if (hasBegun) subscribed();
    });
    client
      .connect()
      // The subscription may have been closed while it connected.
      .then(() => (closed ? endNodeRedis(client) : client.subscribe(channel, released)))
      .then(() => {
        hasBegun = true;
        subscribed();
      }, lost);
    return () => {
      closed = true;
      endNodeRedis(client);
    };
  }
}

export function endNodeRedis(client: NodeRedis): void {
  try {
    if (client.destroy) client.destroy();
    else client.disconnect().catch(ignore);
  } catch {
    // The connection was not open.
  }
}
