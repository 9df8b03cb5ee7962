import type { ReleaseListener } from '../wakers.js';
import {
  countDisconnects,
  ignore,
  SCANNED,
  scannedIn,
  type Disconnects,
  type Listen,
  type RedisConnection,
  type Scan,
} from './connection.js';
import type { Script } from './scripts.js';

export interface IoRedis {
  /** True for a cluster client. Its `duplicate` takes other arguments. */
  readonly isCluster?: boolean;
  readonly options?: { readonly keyPrefix?: string; readonly enableAutoPipelining?: boolean };
  evalsha(sha: string, keys: number, ...rest: string[]): Promise<unknown>;
  eval(source: string, keys: number, ...rest: string[]): Promise<unknown>;
  pipeline(commands: readonly unknown[][]): {
    exec(): Promise<readonly (readonly [error: Error | null, reply: unknown])[] | null>;
  };
  scan?(cursor: string, ...rest: string[]): Promise<unknown>;
  /** Only a cluster client has this method. */
  nodes?(role: 'master'): IoRedis[];
  duplicate?(options?: object): IoRedis;
  on(event: string, listener: (...args: never[]) => void): unknown;
  subscribe(channel: string): Promise<unknown>;
  disconnect(): void;
}

/** A client of ioredis or of its fork iovalkey. */
export class IoRedisConnection implements RedisConnection {
  readonly isCluster: boolean;
  readonly keyPrefix: string;
  readonly disconnects: Disconnects;
  readonly listen?: Listen;
  readonly #client: IoRedis;

  constructor(client: IoRedis) {
    this.#client = client;
    this.isCluster = client.isCluster === true;
    this.keyPrefix = client.options?.keyPrefix ?? '';
    // A cluster client emits the second event when it loses a node.
    this.disconnects = countDisconnects(client, ['close', '-node']);
    if (typeof client.duplicate === 'function')
      this.listen = (channel, listener) => this.#listen(channel, listener);
  }

  run(
    { sha, source }: Script,
    keys: readonly string[],
    args: readonly string[],
    bySource: boolean,
  ): Promise<unknown> {
    const rest = [bySource ? source : sha, keys.length, ...keys, ...args] as const;
    if (this.#pipelinesItself) return this.#runInPipeline(bySource ? 'eval' : 'evalsha', rest);
    return bySource ? this.#client.eval(...rest) : this.#client.evalsha(...rest);
  }

  scans(): Promise<readonly Scan[] | undefined> {
    const client = this.#client;
    const nodes = this.isCluster ? client.nodes?.('master') : [client];
    return Promise.resolve(
      nodes?.map((node) => async (cursor, pattern) => {
        return scannedIn(await node.scan!(cursor, 'MATCH', pattern, 'COUNT', String(SCANNED)));
      }),
    );
  }

  /**
   * With automatic pipelining, a cluster client sends the commands of one turn together, grouped by node.
   * ioredis up to version 5.10 and iovalkey 0.4 have a bug in this mode: they compute a command's slot from
   * the script's hash instead of the first key, and then reject all commands of the turn. An explicit
   * pipeline with a single command avoids this bug, because it is not combined with other commands.
   */
  get #pipelinesItself(): boolean {
    return this.isCluster && this.#client.options?.enableAutoPipelining === true;
  }

  async #runInPipeline(name: string, rest: readonly unknown[]): Promise<unknown> {
    const results = await this.#client.pipeline([[name, ...rest]]).exec();
    const [error, reply] = results![0]!;
    if (error !== null) throw error;
    return reply;
  }

  #listen(channel: string, { released, subscribed, interrupted, lost }: ReleaseListener): () => void {
    // The offline queue is needed to subscribe before the connection is open. Automatic resubscribing is off,
    // because it fails if the client is closed, and the unhandled rejection would then end the process.
    const options = this.isCluster ? [] : [{ enableOfflineQueue: true, autoResubscribe: false }];
    const client = this.#client.duplicate!(...options);
    let hasBegun = false;
    // Errors are ignored, because the client reconnects by itself. Polling covers lost notifications.
    client.on('error', ignore);
    // A message is the name of a lease, with the client's key prefix. Channel names have no such prefix.
    const prefix = client.options?.keyPrefix ?? '';
    client.on('message', (_channel: string, message: string) => released(message.slice(prefix.length)));
    client.on('close', () => {
      if (hasBegun) interrupted();
    });
    // A release may have been missed during the interruption, so `subscribed` is called again.
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
