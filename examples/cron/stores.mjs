import { Redis } from 'ioredis';
import { redisLeaseStore } from 'stripelock/redis';
import { sqliteLeaseStore } from 'stripelock/sqlite';

/** The leases, and the journal that they guard, which refuses a token lower than one that it has seen. */
export function openStore(settings) {
  return settings.store === 'redis' ? openRedis(settings) : openSqlite(settings);
}

function openSqlite({ file }) {
  const sqlite = process.getBuiltinModule('node:sqlite');
  if (sqlite === undefined)
    throw new Error('--store sqlite needs Node 22.13 or later here; try --store redis');
  const database = new sqlite.DatabaseSync(file, { timeout: 5000 });
  database.exec('CREATE TABLE IF NOT EXISTS journal (night INTEGER PRIMARY KEY, author TEXT, token INTEGER)');
  const find = database.prepare('SELECT 1 FROM journal WHERE night = ? AND author IS NOT NULL');
  const crash = database.prepare('INSERT OR IGNORE INTO journal (night) VALUES (-1)');
  const write = database.prepare(
    `INSERT INTO journal VALUES (?, ?, ?) ON CONFLICT (night)
     DO UPDATE SET author = excluded.author, token = excluded.token WHERE token <= excluded.token`,
  );
  const read = database.prepare('SELECT night, author, token FROM journal WHERE night > 0 ORDER BY night');
  read.setReadBigInts(true);
  const journal = {
    has: async (night) => find.get(night) !== undefined,
    noteCrash: async () => Number(crash.run().changes) === 1,
    write: async (night, author, token) => Number(write.run(night, author, token).changes) === 1,
    read: async () => read.all(),
  };
  return { store: sqliteLeaseStore({ database }), journal, close: async () => database.close() };
}

/** Tokens as text of equal length compare like numbers. Lua would round the numbers. */
const WRITE = `
if (redis.call('HGET', KEYS[1], 'token') or '') > ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'author', ARGV[1], 'token', ARGV[2]) return 1`;

async function openRedis({ url, prefix, nights }) {
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
