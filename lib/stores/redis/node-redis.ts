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

export interface NodeRedis {
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  eval(source: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  sendCommand?(args: string[]): Promise<unknown>;
  /** Only a cluster client has these two members. */
  readonly masters?: readonly object[];
  nodeClient?(node: object): Promise<NodeRedis>;
  /** Only a client for Sentinel has this method. */
  getSentinelNode?(): unknown;
  duplicate?(): NodeRedis;
  on(event: string, listener: (...args: never[]) => void): unknown;
  connect(): Promise<unknown>;
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  /** Exists since version 5. Returns a promise if the client is for Sentinel. */
  destroy?(): unknown;
  disconnect(): Promise<unknown>;
}

export class NodeRedisConnection implements RedisConnection {
  readonly isCluster: boolean;
  readonly disconnects?: Disconnects;
  readonly listen?: Listen;
  readonly #client: NodeRedis;

  constructor(client: NodeRedis) {
    this.#client = client;
    this.isCluster = 'slots' in client;
    // Only a client for Sentinel sends commands again after a lost connection. Such a client then emits one
    // of these events, even if it reconnects to the same server.
    if (typeof client.getSentinelNode === 'function') {
      this.disconnects = countDisconnects(client, ['reconnecting', 'topology-change']);
    }
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

  async scans(): Promise<readonly Scan[] | undefined> {
    const client = this.#client;
    const nodes = this.isCluster
      ? client.masters && (await Promise.all(client.masters.map((node) => client.nodeClient!(node))))
      : [client];
    return nodes?.map((node) => async (cursor, pattern) => {
      return scannedIn(await node.sendCommand!(['SCAN', cursor, 'MATCH', pattern, 'COUNT', String(SCANNED)]));
    });
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
      // The feed may have been closed while the client connected.
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
    Promise.resolve(client.destroy ? client.destroy() : client.disconnect()).catch(ignore);
  } catch {
    // The connection was not open.
  }
}
