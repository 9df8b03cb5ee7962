import { MemoryLeaseStore } from 'stripelock';
import { dynamodbLeaseStore } from 'stripelock/dynamodb';
import { etcdLeaseStore } from 'stripelock/etcd';
import { mongodbLeaseStore } from 'stripelock/mongodb';
import { mysqlLeaseStore } from 'stripelock/mysql';
import { redisLeaseStore } from 'stripelock/redis';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { connectDynamodb } from './dynamodb-clients.mjs';
import { mongodbClients } from './mongodb-clients.mjs';
import { mysqlClients } from './mysql-clients.mjs';
import { redisClients } from './redis-clients.mjs';

/**
 * Where a store is, so that any thread can open it.
 *
 * @typedef {{ handle: object } | { path: string } | { url: string } | { endpoints: readonly string[] }
 *   | { port: number, library: string } | { dynamodb: string } | MongodbPlace | MysqlPlace} Place
 *
 * @typedef {{ driver: keyof typeof mongodbClients, server: string, collection: string }} MongodbPlace
 * @typedef {{ mysql: keyof typeof mysqlClients, server: string, table: string }} MysqlPlace
 */

/** A client of each library, for the server at the port that the environment names: a `clientModule`. */
const clientModule = (/** @type {string} */ library) =>
  new URL(`../workers/redis-client.mjs?library=${library}`, import.meta.url);

/**
 * @param {Place} place
 * @returns {Promise<{ store: import('stripelock').LeaseStore, close: () => unknown }>}
 */
export async function openLeaseStore(place) {
  if ('handle' in place) return { store: MemoryLeaseStore.from(place.handle), close: () => undefined };
  if ('path' in place) return closing(sqliteLeaseStore({ path: place.path, timeout: 5000 }));
  if ('url' in place) return closing(redisLeaseStore({ url: place.url, timeout: 5000 }));
  if ('endpoints' in place) return closing(etcdLeaseStore({ endpoints: place.endpoints, timeout: 5000 }));
  if ('driver' in place) return openMongodb(place);
  if ('mysql' in place) return openMysql(place);
  if ('dynamodb' in place) return openDynamodb(place.dynamodb);
  const { port, library } = place;
  const { client, close } = await redisClients[/** @type {keyof typeof redisClients} */ (library)](port);
  const module = clientModule(library);
  module.searchParams.set('port', String(port));
  const store = redisLeaseStore({ client, clientModule: module, timeout: 5000 });
  return {
    store,
    close: async () => {
      await store.close();
      close();
    },
  };
}

/** @param {MongodbPlace} place */
async function openMongodb({ driver, server, collection }) {
  const { client, close } = await mongodbClients[driver](server);
  const module = new URL('../workers/mongodb-client.mjs', import.meta.url);
  for (const [name, value] of Object.entries({ driver, server, collection }))
    module.searchParams.set(name, value);
  const leases = client.db('stripelock_test').collection(collection);
  const store = mongodbLeaseStore({ collection: leases, clientModule: module, timeout: 5000 });
  return {
    store,
    close: async () => {
      await store.close();
      await close();
    },
  };
}

/** @param {MysqlPlace} place */
async function openMysql({ mysql: library, server, table }) {
  const { client, close } = await mysqlClients[library](server);
  const module = new URL('../workers/mysql-client.mjs', import.meta.url);
  for (const [name, value] of Object.entries({ library, server })) module.searchParams.set(name, value);
  const store = mysqlLeaseStore({ client, table, clientModule: module, timeout: 5000 });
  return {
    store,
    close: async () => {
      await store.close();
      await close();
    },
  };
}

/** @param {string} endpoint */
function openDynamodb(endpoint) {
  const module = new URL('../workers/dynamodb-client.mjs', import.meta.url);
  module.searchParams.set('endpoint', endpoint);
  const client = connectDynamodb(endpoint);
  const store = dynamodbLeaseStore({ client, clientModule: module, timeout: 5000 });
  return {
    store,
    close: async () => {
      await store.close();
      client.destroy();
    },
  };
}

/** @param {import('stripelock').ClosableLeaseStore} store */
function closing(store) {
  return { store, close: () => store.close() };
}
