import { invalidArgType } from '../../common/errors.js';
import type { Ears } from '../wakers.js';
import type { Script } from './scripts.js';

const ignore = (): void => undefined;

/** The caller's client: of `ioredis`, `iovalkey` or `redis` (node-redis), of a single server or a cluster. */
export type RedisClient = object;

/**
 * Hears what is published on a channel, by a second connection, until the returned function is called, which also ends
 * attempts to connect, and does not throw. While the server is away it goes on trying.
 */
type Listen = (channel: string, ears: Ears) => () => void;

interface Cuts {
  count: number;
}

/** What the store needs from a client, whatever its library. */
export interface RedisConnection {
  /** Runs a script by the name that the server knows, if it does, or by its source. */
  run(script: Script, keys: readonly string[], args: readonly string[], bySource: boolean): Promise<unknown>;
  readonly isCluster: boolean;
  /** How often a connection was lost, of a client that then sends again what was not answered. */
  readonly cuts?: Cuts;
  /** Undefined if the client cannot make another connection. */
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
  /** True for a cluster, whose `duplicate` takes other arguments. */
  readonly isCluster?: boolean;
  readonly options?: { readonly keyPrefix?: string };
  evalsha(sha: string, keys: number, ...rest: string[]): Promise<unknown>;
  eval(source: string, keys: number, ...rest: string[]): Promise<unknown>;
  duplicate?(options?: object): IoRedis;
  on(event: string, listener: (...args: never[]) => void): unknown;
  subscribe(channel: string): Promise<unknown>;
  disconnect(): void;
}

/** The listeners of each client, so that many stores on one client add no more than one listener. */
const cutsOf = new WeakMap<IoRedis, Cuts>();

function countCuts(client: IoRedis): Cuts {
  let cuts = cutsOf.get(client);
  if (cuts === undefined) {
    const counted = { count: 0 };
    cutsOf.set(client, (cuts = counted));
    // The latter of a cluster, for one of its nodes.
    for (const event of ['close', '-node']) client.on(event, () => counted.count++);
  }
  return cuts;
}

/** ioredis, and its fork iovalkey. */
class IoRedisConnection implements RedisConnection {
  readonly isCluster: boolean;
  readonly cuts: Cuts;
  readonly listen?: Listen;
  readonly #client: IoRedis;

  constructor(client: IoRedis) {
    this.#client = client;
    this.isCluster = client.isCluster === true;
    this.cuts = countCuts(client);
    if (typeof client.duplicate === 'function') this.listen = (channel, ears) => this.#listen(channel, ears);
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

  #listen(channel: string, { heard, ready, interrupted, lost }: Ears): () => void {
    // It subscribes before it is connected, which needs the offline queue. Its own resubscribing after a lost connection
    // is off: if that failed because the client was closed, nobody would catch the rejection, and the process would end.
    const options = this.isCluster ? [] : [{ enableOfflineQueue: true, autoResubscribe: false }];
    const client = this.#client.duplicate!(...options);
    let hasBegun = false;
    // It reconnects by itself. Polling finds what it misses until then.
    client.on('error', ignore);
    // The client puts a prefix before every key, but not before the names of channels.
    const prefix = client.options?.keyPrefix ?? '';
    client.on('message', (_channel: string, message: string) => heard(message.slice(prefix.length)));
    client.on('close', () => {
      if (hasBegun) interrupted();
    });
    // A release may have been missed before.
    client.on('ready', () => {
      if (hasBegun) client.subscribe(channel).then(ready, ignore);
    });
    client.subscribe(channel).then(() => {
      hasBegun = true;
      ready();
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
  /** From version 5 on. */
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
    if (typeof client.duplicate === 'function') this.listen = (channel, ears) => this.#listen(channel, ears);
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

  #listen(channel: string, { heard, ready, interrupted, lost }: Ears): () => void {
    const client = this.#client.duplicate!();
    client.on('error', ignore);
    let closed = false;
    let hasBegun = false;
    // It subscribes again before it is ready.
    client.on('reconnecting', () => {
      if (hasBegun) interrupted();
    });
    client.on('ready', () => {
      if (hasBegun) ready();
    });
    client
      .connect()
      // It may have connected although it was closed just before.
      .then(() => (closed ? endNodeRedis(client) : client.subscribe(channel, heard)))
      .then(() => {
        hasBegun = true;
        ready();
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
