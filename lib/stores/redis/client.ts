import { invalidArgType } from '../../common/errors.js';
import type { Script } from './scripts.js';

/** The caller's client: of `ioredis`, `iovalkey` or `redis` (node-redis), single or of a cluster. */
export type RedisClient = object;

/** A connection of its own that hears what is published. */
export interface Subscriber {
  /** Connects first. Rejects where that fails for good; where the server is away it goes on trying. */
  subscribe(channel: string): Promise<unknown>;
  /** Also while it is being connected: then it is not tried any more. Must not throw. */
  close(): void;
}

/** What the store needs of a client, whichever library it is of. */
export interface RedisConnection {
  bySha(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  bySource(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  /** What the client itself puts before every key, but not before the names of channels. */
  readonly keyPrefix: string;
  readonly isCluster: boolean;
  /** Not connected yet. Undefined where the client offers none. */
  subscriber?(heard: (message: string) => void): Subscriber;
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

/**
 * Runs a script, in one round trip unless scripts were flushed: then its source is sent. Calls one of the two functions,
 * once, later: a promise more for each call would show beside a server in the same machine.
 */
export function evaluate(
  connection: RedisConnection,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
  answered: (reply: unknown) => void,
  failed: (error: unknown) => void,
): void {
  connection.bySha(script, keys, args).then(answered, (error: unknown) => {
    if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) failed(error);
    else connection.bySource(script, keys, args).then(answered, failed);
  });
}

interface IoRedis {
  /** Of a cluster; its `duplicate` takes other arguments. */
  readonly isCluster?: boolean;
  readonly options?: { readonly keyPrefix?: string };
  evalsha(sha: string, keys: number, ...rest: string[]): Promise<unknown>;
  eval(source: string, keys: number, ...rest: string[]): Promise<unknown>;
  duplicate?(options?: object): IoRedis;
  on(event: string, listener: (channel: string, message: string) => void): unknown;
  subscribe(channel: string): Promise<unknown>;
  disconnect(): void;
}

/** ioredis, and iovalkey, which came from it. */
class IoRedisConnection implements RedisConnection {
  readonly keyPrefix: string;
  readonly isCluster: boolean;
  readonly subscriber?: (heard: (message: string) => void) => Subscriber;
  readonly #client: IoRedis;

  constructor(client: IoRedis) {
    this.#client = client;
    this.keyPrefix = client.options?.keyPrefix ?? '';
    this.isCluster = client.isCluster === true;
    if (typeof client.duplicate === 'function') this.subscriber = (heard) => this.#subscriber(heard);
  }

  bySha({ sha }: Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    return this.#client.evalsha(sha, keys.length, ...keys, ...args);
  }

  bySource({ source }: Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    return this.#client.eval(source, keys.length, ...keys, ...args);
  }

  #subscriber(heard: (message: string) => void): Subscriber {
    // It subscribes before it is connected, which only the queue allows. When it does so again by itself after a
    // connection was lost, nobody sees that fail: closed meanwhile, it would end the process.
    const options = this.isCluster ? [] : [{ enableOfflineQueue: true, autoResubscribe: false }];
    const client = this.#client.duplicate!(...options);
    const channels: string[] = [];
    // It reconnects by itself, and what it misses meanwhile is found by polling.
    client.on('error', () => undefined);
    client.on('message', (_channel, message) => heard(message));
    client.on('ready', () => {
      for (const channel of channels) client.subscribe(channel).catch(() => undefined);
    });
    return {
      async subscribe(channel) {
        await client.subscribe(channel);
        channels.push(channel);
      },
      close: () => client.disconnect(),
    };
  }
}

interface NodeRedis {
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  eval(source: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  duplicate?(): NodeRedis;
  on(event: string, listener: () => void): unknown;
  connect(): Promise<unknown>;
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  /** From version 5 on. */
  destroy?(): void;
  disconnect(): Promise<unknown>;
}

class NodeRedisConnection implements RedisConnection {
  readonly keyPrefix = '';
  readonly isCluster: boolean;
  readonly subscriber?: (heard: (message: string) => void) => Subscriber;
  readonly #client: NodeRedis;

  constructor(client: NodeRedis) {
    this.#client = client;
    this.isCluster = 'slots' in client;
    if (typeof client.duplicate === 'function') this.subscriber = (heard) => this.#subscriber(heard);
  }

  bySha({ sha }: Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    return this.#client.evalSha(sha, { keys: [...keys], arguments: [...args] });
  }

  bySource({ source }: Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    return this.#client.eval(source, { keys: [...keys], arguments: [...args] });
  }

  #subscriber(heard: (message: string) => void): Subscriber {
    const client = this.#client.duplicate!();
    client.on('error', () => undefined);
    let closed = false;
    const end = (): void => {
      try {
        if (client.destroy) client.destroy();
        else client.disconnect().catch(() => undefined);
      } catch {
        // It was not open.
      }
    };
    return {
      async subscribe(channel) {
        await client.connect();
        // Closed just before it was connected, it may have come about all the same.
        if (closed) end();
        else await client.subscribe(channel, heard);
      },
      close() {
        closed = true;
        end();
      },
    };
  }
}
