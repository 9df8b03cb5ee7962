import { invalidArgType } from '../../errors.js';
import type { Script } from './scripts.js';

/** The caller's client: of `ioredis`, `iovalkey` or `redis` (node-redis), single or of a cluster. */
export type RedisClient = object;

/** A connection of its own that hears what is published. */
export interface Subscriber {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  close(): void;
}

/** What the store needs of a client, whichever library it is of. */
export interface RedisConnection {
  evaluate(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  /** Undefined where the client offers none. Rejects where it cannot be connected. */
  subscriber?(heard: (channel: string) => void): Promise<Subscriber>;
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

/** Flushed scripts are sent again, once. */
async function withSource<T>(bySha: () => Promise<T>, bySource: () => Promise<T>): Promise<T> {
  try {
    return await bySha();
  } catch (error) {
    if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error;
    return bySource();
  }
}

interface IoRedis {
  /** Of a cluster; its `duplicate` takes other arguments. */
  readonly isCluster?: boolean;
  evalsha(sha: string, keys: number, ...rest: string[]): Promise<unknown>;
  eval(source: string, keys: number, ...rest: string[]): Promise<unknown>;
  duplicate?(options?: object): IoRedis;
  on(event: string, listener: (channel: string) => void): unknown;
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  disconnect(): void;
}

/** ioredis, and iovalkey, which came from it. */
class IoRedisConnection implements RedisConnection {
  readonly subscriber?: (heard: (channel: string) => void) => Promise<Subscriber>;
  readonly #client: IoRedis;

  constructor(client: IoRedis) {
    this.#client = client;
    if (typeof client.duplicate === 'function') this.subscriber = (heard) => this.#subscriber(heard);
  }

  evaluate({ sha, source }: Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    return withSource(
      () => this.#client.evalsha(sha, keys.length, ...keys, ...args),
      () => this.#client.eval(source, keys.length, ...keys, ...args),
    );
  }

  #subscriber(heard: (channel: string) => void): Promise<Subscriber> {
    // It subscribes before it is connected, which only the queue allows.
    const options = this.#client.isCluster ? [] : [{ enableOfflineQueue: true }];
    const client = this.#client.duplicate!(...options);
    // It reconnects by itself, and what it misses meanwhile is found by polling.
    client.on('error', () => undefined);
    client.on('message', heard);
    return Promise.resolve({
      subscribe: (channel) => client.subscribe(channel),
      unsubscribe: (channel) => client.unsubscribe(channel),
      close: () => client.disconnect(),
    });
  }
}

interface NodeRedis {
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  eval(source: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  duplicate?(): NodeRedis;
  on(event: string, listener: () => void): unknown;
  connect(): Promise<unknown>;
  subscribe(channel: string, listener: () => void): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  /** From version 5 on. */
  destroy?(): void;
  disconnect(): Promise<unknown>;
}

class NodeRedisConnection implements RedisConnection {
  readonly subscriber?: (heard: (channel: string) => void) => Promise<Subscriber>;
  readonly #client: NodeRedis;

  constructor(client: NodeRedis) {
    this.#client = client;
    if (typeof client.duplicate === 'function') this.subscriber = (heard) => this.#subscriber(heard);
  }

  evaluate({ sha, source }: Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    const options = { keys: [...keys], arguments: [...args] };
    return withSource(
      () => this.#client.evalSha(sha, options),
      () => this.#client.eval(source, options),
    );
  }

  async #subscriber(heard: (channel: string) => void): Promise<Subscriber> {
    const client = this.#client.duplicate!();
    client.on('error', () => undefined);
    await client.connect();
    return {
      subscribe: (channel) => client.subscribe(channel, () => heard(channel)),
      unsubscribe: (channel) => client.unsubscribe(channel),
      close() {
        if (client.destroy) client.destroy();
        else client.disconnect().catch(() => undefined);
      },
    };
  }
}
