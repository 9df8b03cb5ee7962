/**
 * @callback Connect
 * @param {number} port Of this machine.
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
  ioredis: async (port) => ioCluster((await import('ioredis')).Cluster, port),
  iovalkey: async (port) => ioCluster((await import('iovalkey')).Cluster, port),
  redis: async (port) => {
    const { createCluster } = await import('redis');
    const client = createCluster({ rootNodes: [{ socket: { port, host: '127.0.0.1' } }] });
    client.on('error', () => undefined);
    await client.connect();
    return { client, close: () => client.destroy() };
  },
};

/**
 * @param {new (nodes: any[]) => any} Cluster Of either library.
 * @param {number} port
 */
async function ioCluster(Cluster, port) {
  const client = new Cluster([{ port, host: '127.0.0.1' }]);
  client.on('error', () => undefined);
  if (client.status !== 'ready') await new Promise((resolve) => client.once('ready', resolve));
  return { client, close: () => client.disconnect() };
}

/**
 * @param {new (port: number, host: string, options: any) => any} Redis Of either library.
 * @param {number} port
 */
async function ioRedis(Redis, port) {
  const client = new Redis(port, '127.0.0.1', { retryStrategy: () => 50 });
  client.on('error', () => undefined);
  if (client.status !== 'ready') await new Promise((resolve) => client.once('ready', resolve));
  return { client, close: () => client.disconnect() };
}
