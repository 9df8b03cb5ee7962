import { Redis as IoRedis } from 'ioredis';
import { Redis as IoValkey } from 'iovalkey';
import { createClient } from 'redis';

/** Every client library, each connected to a port of this machine. A failing connection is retried for ever, quickly. */
export const redisClients = {
  ioredis: (port, options) =>
    ioRedis(new IoRedis(port, '127.0.0.1', { retryStrategy: () => 50, ...options })),
  iovalkey: (port, options) =>
    ioRedis(new IoValkey(port, '127.0.0.1', { retryStrategy: () => 50, ...options })),
  redis: async (port) => {
    const client = createClient({ socket: { port, host: '127.0.0.1', reconnectStrategy: () => 50 } });
    client.on('error', () => undefined);
    await client.connect();
    return { client, close: () => client.destroy() };
  },
};

async function ioRedis(client) {
  client.on('error', () => undefined);
  if (client.status !== 'ready') await new Promise((resolve) => client.once('ready', resolve));
  return { client, close: () => client.disconnect() };
}
