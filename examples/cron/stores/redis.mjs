import { Redis } from 'ioredis';
import { redisLeaseStore } from 'stripelock/redis';

/** Tokens as text of equal length compare like numbers. Lua would round the numbers. */
const WRITE = `
if (redis.call('HGET', KEYS[1], 'token') or '') > ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'author', ARGV[1], 'token', ARGV[2]) return 1`;

export const defaultUrl = 'redis://127.0.0.1:6379';

export async function open({ url, prefix, nights }) {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null });
  client.on('error', () => undefined);
  await client.connect().catch((error) => {
    throw new Error(`no Redis server at ${url}: ${error.message}`);
  });
  const keyOf = (night) => `${prefix}night:${night}`;
  const crashKey = `${prefix}crash`;
  const journal = {
    has: async (night) => (await client.exists(keyOf(night))) === 1,
    noteCrash: async () => (await client.set(crashKey, 1, 'NX')) === 'OK',
    write: async (night, author, token) =>
      (await client.eval(WRITE, 1, keyOf(night), author, String(token).padStart(20, '0'))) === 1,
    async read() {
      const numbers = Array.from({ length: nights }, (_, i) => i + 1);
      const entries = await Promise.all(numbers.map((night) => client.hgetall(keyOf(night))));
      await client.del(crashKey, ...numbers.map(keyOf));
      return entries.map(({ author, token }, i) => ({ night: i + 1, author, token: BigInt(token) }));
    },
  };
  const store = redisLeaseStore({ client, prefix });
  const close = async () => {
    await store.close();
    client.disconnect();
  };
  return { store, journal, close };
}
