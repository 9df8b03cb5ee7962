/**
 * Every client library, each loaded only where it is used, and connected to a port of this machine. A failing connection
 * is retried for ever, quickly.
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

async function ioRedis(Redis, port) {
  const client = new Redis(port, '127.0.0.1', { retryStrategy: () => 50 });
  client.on('error', () => undefined);
  if (client.status !== 'ready') await new Promise((resolve) => client.once('ready', resolve));
  return { client, close: () => client.disconnect() };
}
