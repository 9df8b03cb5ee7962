import { MemoryLeaseStore } from 'stripelock';
import { dynamodbLeaseStore } from 'stripelock/dynamodb';
import { etcdLeaseStore } from 'stripelock/etcd';
import { mongodbLeaseStore } from 'stripelock/mongodb';
import { mysqlLeaseStore } from 'stripelock/mysql';
import { postgresLeaseStore } from 'stripelock/postgres';
import { redisLeaseStore } from 'stripelock/redis';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { connectDynamodb } from './dynamodb-clients.mjs';
import { mongodbClients } from './mongodb-clients.mjs';
import { mysqlClients } from './mysql-clients.mjs';
import { postgresClients } from './postgres-clients.mjs';
import { redisClients } from './redis-clients.mjs';
import { sqliteDrivers } from './sqlite-drivers.mjs';

/**
 * Where a store is, so that any thread can open it.
 *
 * @typedef {{ handle: object } | { path: string } | { sqlite: string } | { url: string } | { endpoints: readonly string[] }
 *   | { port: number, library: string } | { dynamodb: string } | MongodbPlace | MysqlPlace
 *   | PostgresPlace} Place
 *
 * @typedef {{ driver: keyof typeof mongodbClients, server: string, collection: string }} MongodbPlace
 * @typedef {{ mysql: keyof typeof mysqlClients, server: string, table: string }} MysqlPlace
 * @typedef {{ postgres: keyof typeof postgresClients, server: number }} PostgresPlace The server's port.
 */

/** A client of each library, for the server at the port that the environment names: a `clientModule`. */
const clientModule = (/** @type {string} */ library) =>
  new URL(`../workers/redis-client.mjs?library=${library}`, import.meta.url);

/**
 * @param {Place} place
 * @param {number} [timeout] Of an operation, in milliseconds.
 * @returns {Promise<{ store: import('stripelock').LeaseStore, close: () => unknown }>}
 */
export async function openLeaseStore(place, timeout = 5000) {
  if ('handle' in place) return { store: MemoryLeaseStore.from(place.handle), close: () => undefined };
  if ('path' in place) return closing(sqliteLeaseStore({ path: place.path, timeout }));
  if ('sqlite' in place) return openSqlite(place.sqlite, timeout);
  if ('url' in place) return closing(redisLeaseStore({ url: place.url, timeout }));
  if ('endpoints' in place) return closing(etcdLeaseStore({ endpoints: place.endpoints, timeout }));
  if ('driver' in place) return openMongodb(place, timeout);
  if ('mysql' in place) return openMysql(place, timeout);
  if ('postgres' in place) return openPostgres(place, timeout);
  if ('dynamodb' in place) return openDynamodb(place.dynamodb, timeout);
  const { port, library } = place;
  const { client, close } = await redisClients[/** @type {keyof typeof redisClients} */ (library)](port);
  const module = clientModule(library);
  module.searchParams.set('port', String(port));
  const store = redisLeaseStore({ client, clientModule: module, timeout });
  return {
    store,
    close: async () => {
      await store.close();
      close();
    },
  };
}

/**
 * @param {MongodbPlace} place
 * @param {number} timeout
 */
async function openMongodb({ driver, server, collection }, timeout) {
  const { client, close } = await mongodbClients[driver](server);
  const module = new URL('../workers/mongodb-client.mjs', import.meta.url);
  for (const [name, value] of Object.entries({ driver, server, collection }))
    module.searchParams.set(name, value);
  const leases = client.db('stripelock_test').collection(collection);
  const store = mongodbLeaseStore({ collection: leases, clientModule: module, timeout });
  return closing(store, close);
}

/**
 * @param {MysqlPlace} place
 * @param {number} timeout
 */
async function openMysql({ mysql: library, server, table }, timeout) {
  const { client, close } = await mysqlClients[library](server);
  const module = new URL('../workers/mysql-client.mjs', import.meta.url);
  for (const [name, value] of Object.entries({ library, server })) module.searchParams.set(name, value);
  const store = mysqlLeaseStore({ client, table, clientModule: module, timeout });
  return closing(store, close);
}

/**
 * By a driver of any Node.
 *
 * @param {string} file
 * @param {number} timeout
 */
function openSqlite(file, timeout) {
  const database = sqliteDrivers[0].open(file);
  const store = sqliteLeaseStore({ database, timeout });
  return closing(store, () => database.close());
}

/**
 * @param {PostgresPlace} place
 * @param {number} timeout
 */
async function openPostgres({ postgres: library, server }, timeout) {
  const { client, close } = await postgresClients[library](server);
  const module = new URL('../workers/postgres-client.mjs', import.meta.url);
  module.searchParams.set('library', library);
  module.searchParams.set('port', String(server));
  const store = postgresLeaseStore({ client, clientModule: module, timeout });
  return closing(store, close);
}

/**
 * @param {string} endpoint
 * @param {number} timeout
 */
function openDynamodb(endpoint, timeout) {
  const module = new URL('../workers/dynamodb-client.mjs', import.meta.url);
  module.searchParams.set('endpoint', endpoint);
  const client = connectDynamodb(endpoint);
  const store = dynamodbLeaseStore({ client, clientModule: module, timeout });
  return closing(store, () => client.destroy());
}

/**
 * @param {import('stripelock').ClosableLeaseStore} store
 * @param {() => unknown} [end] Ends its client, after the store is closed.
 */
function closing(store, end) {
  return {
    store,
    close: async () => {
      await store.close();
      await end?.();
    },
  };
}
