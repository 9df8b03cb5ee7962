import { SENTINEL_NAME } from './redis-sentinel.mjs';

/**
 * @callback Connect
 * @param {number} port Of this machine.
 * @param {object} [options] For a cluster: of the library.
 * @returns {Promise<{ client: object, close: () => void }>} A client of any of the libraries.
 */

/**
 * Every client library, each loaded only where it is used. A failing connection is retried for ever, quickly.
 *
 * @type {Record<'ioredis' | 'iovalkey' | 'redis', Connect>}
 */
export const redisClients = {
  ioredis: async (port) => ioRedis((await import('ioredis')).Redis, port),
  iovalkey: async (port) => ioRedis((await import('iovalkey')).Redis, port),
  redis: async (port) => {
    const { createClient } = await import('redis');
    const client = createClient({ socket: { port, host: '127.0.0.1', reconnectStrategy: () => 50 } });
    client.on('error', () => undefined);
    await client.connect();
    return { client, close: () => client.destroy() };
  },
};

/**
 * The same for a cluster. The port of one node is enough.
 *
 * @type {Record<'ioredis' | 'iovalkey' | 'redis', Connect>}
 */
export const redisClusterClients = {
  ioredis: async (port, options) => ioCluster((await import('ioredis')).Cluster, port, options),
  iovalkey: async (port, options) => ioCluster((await import('iovalkey')).Cluster, port, options),
  redis: async (port) => {
    const { createCluster } = await import('redis');
    const client = createCluster({ rootNodes: [{ socket: { port, host: '127.0.0.1' } }] });
    client.on('error', () => undefined);
    await client.connect();
    return { client, close: () => client.destroy() };
  },
};

/**
 * The same for servers that a Sentinel watches. The port is the Sentinel's; the options map addresses of servers to others.
 *
 * @type {Record<'ioredis' | 'iovalkey' | 'redis', Connect>}
 */
export const redisSentinelClients = {
  ioredis: async (port, addresses) => ioSentinel((await import('ioredis')).Redis, port, addresses),
  iovalkey: async (port, addresses) => ioSentinel((await import('iovalkey')).Redis, port, addresses),
  redis: async (port, addresses = {}) => {
    const { createSentinel } = await import('redis');
    const client = createSentinel({
      name: SENTINEL_NAME,
      sentinelRootNodes: [{ port, host: '127.0.0.1' }],
      nodeAddressMap: /** @type {Record<string, { host: string, port: number }>} */ (addresses),
    });
    client.on('error', () => undefined);
    await client.connect();
    return { client, close: () => void client.destroy() };
  },
};

/**
 * @param {new (nodes: any[], options?: object) => any} Cluster Of either library.
 * @param {number} port
 * @param {object} [options]
 */
function ioCluster(Cluster, port, options) {
  return connected(new Cluster([{ port, host: '127.0.0.1' }], options));
}

/**
 * @param {new (options: any) => any} Redis Of either library.
 * @param {number} port
 */
function ioRedis(Redis, port) {
  return connected(new Redis({ port, host: '127.0.0.1', retryStrategy: () => 50 }));
}

/**
 * @param {new (options: any) => any} Redis Of either library.
 * @param {number} port
 * @param {object} [addresses]
 */
function ioSentinel(Redis, port, addresses) {
  const sentinels = [{ port, host: '127.0.0.1' }];
  return connected(new Redis({ name: SENTINEL_NAME, sentinels, natMap: addresses }));
}

/** @param {any} client Of either library. */
async function connected(client) {
  client.on('error', () => undefined);
  if (client.status !== 'ready') await new Promise((resolve) => client.once('ready', resolve));
  return { client, close: () => client.disconnect() };
}
