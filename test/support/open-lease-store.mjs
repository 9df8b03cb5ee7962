import { MemoryLeaseStore } from 'stripelock';
import { etcdLeaseStore } from 'stripelock/etcd';
import { mongodbLeaseStore } from 'stripelock/mongodb';
import { redisLeaseStore } from 'stripelock/redis';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { mongodbClients } from './mongodb-clients.mjs';
import { redisClients } from './redis-clients.mjs';

/**
 * Where a store is, so that any thread can open it.
 *
 * @typedef {{ handle: object } | { path: string } | { url: string } | { endpoints: readonly string[] }
 *   | { port: number, library: string } | MongodbPlace} Place
 *
 * @typedef {{ driver: keyof typeof mongodbClients, server: string, collection: string }} MongodbPlace
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

/** @param {import('stripelock').ClosableLeaseStore} store */
function closing(store) {
  return { store, close: () => store.close() };
}
