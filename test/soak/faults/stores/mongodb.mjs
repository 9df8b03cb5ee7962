// On the stand-in of MongoDB, which keeps its data when it is killed, and on both versions of the driver.

import { setTimeout as delay } from 'node:timers/promises';
import { mongodbLeaseStore } from 'stripelock/mongodb';
import { mongodbClients } from '../../../support/mongodb-clients.mjs';
import { StandInServer } from '../../../support/stand-in-server.mjs';
import { WHILE } from '../clock.mjs';
import {
  connectionsAreCut,
  serverIsKilled,
  serverIsPaused,
  pauseForRandomTime,
  somethingElseIsAtTheKey,
} from '../server-scenarios.mjs';

/**
 * @typedef {keyof typeof mongodbClients} Driver
 * @typedef {import('mongodb').Collection<any>} Collection
 */

const drivers = /** @type {Driver[]} */ (Object.keys(mongodbClients));
const MAJORITY = { writeConcern: { w: /** @type {const} */ ('majority') } };
/** Keeps track of a broken store's counters. */
const COUNTERS = 'counters';

/** A connection, also through a proxy, whose address the server does not know. @param {number} port */
const urlOf = (port) => `mongodb://127.0.0.1:${port}/?directConnection=true`;

/** @param {import('mongodb').MongoClient} client */
const databaseOf = (client) => client.db('stripelock_test');

class MongodbBackend {
  /** @type {(() => unknown)[]} */
  #closing = [];
  /** @type {import('mongodb').Db | undefined} */
  #database;

  /** @param {StandInServer} server */
  constructor(server) {
    this.server = server;
  }

  get port() {
    return this.server.port;
  }

  /** The server behind all proxies. */
  get place() {
    return this.server.port;
  }

  async connect() {
    const store = mongodbLeaseStore({ db: await this.database() });
    this.#closing.push(() => store.close());
    return store;
  }

  async database() {
    if (this.#database === undefined) {
      const { client, close } = await mongodbClients.mongodb(urlOf(this.port));
      this.#closing.push(close);
      this.#database = databaseOf(client);
    }
    return this.#database;
  }

  /** @returns {Promise<Collection>} */
  async leases() {
    return (await this.database()).collection('stripelock_leases');
  }

  async forget() {
    const database = await this.database();
    for (const name of ['stripelock_leases', COUNTERS])
      await database.collection(name).deleteMany({}, MAJORITY);
  }

  /** Documents remain for their tokens, without a holder. */
  async leftovers() {
    const left = await (await this.leases()).find({ $expr: { $gt: ['$leaseEnds', '$$NOW'] } }).toArray();
    return left.map(({ _id }) => `${_id} is still held`);
  }

  async stop() {
    for (const close of this.#closing.reverse()) await close();
    await this.server.stop();
  }
}

/**
 * @param {Promise<import('mongodb').Db>} opened
 * @returns {import('../store-faults.mjs').Backdoor}
 */
function backdoor(opened) {
  return {
    async remove(key) {
      const leases = /** @type {Collection} */ ((await opened).collection('stripelock_leases'));
      return (await leases.deleteOne({ _id: key }, MAJORITY)).deletedCount > 0;
    },
    async count(key) {
      const counters = /** @type {Collection} */ ((await opened).collection(COUNTERS));
      const up = [{ $set: { value: { $add: [{ $ifNull: ['$value', 0] }, 1] } } }];
      const options = { ...MAJORITY, upsert: true, returnDocument: /** @type {const} */ ('after') };
      return BigInt((await counters.findOneAndUpdate({ _id: key }, up, options)).value);
    },
  };
}

/** @type {import('../store-faults.mjs').StoreFaults<MongodbBackend>} */
export default {
  title: 'the MongoDB store, on a stand-in of the server,',
  missing: undefined,
  reopens: true,

  start: async () => new MongodbBackend(await StandInServer.start('mongodb')),

  async open({ port, place, driver, timeout, background }) {
    const name = drivers[driver % drivers.length];
    const { client, close } = await mongodbClients[name](urlOf(/** @type {number} */ (port)));
    const clientModule = new URL('../../../workers/mongodb-client.mjs', import.meta.url);
    clientModule.searchParams.set('driver', name);
    clientModule.searchParams.set('server', urlOf(/** @type {number} */ (port)));
    const db = databaseOf(client);
    /** @type {(() => Promise<void>)[]} */
    const closing = [close];
    return {
      store: mongodbLeaseStore({ db, timeout, ...(background && { clientModule }) }),
      backdoor: () => {
        const aside = mongodbClients[name](urlOf(/** @type {number} */ (place)));
        closing.push(async () => (await aside).close());
        return backdoor(aside.then((made) => databaseOf(made.client)));
      },
      close: async () => {
        for (const end of closing) await end();
      },
    };
  },

  scenarios: {
    'the server is killed, and comes back with its data': (world, { server }) =>
      serverIsKilled(world, server),

    async 'the server is killed, and comes back empty'(world, { server }) {
      await world.start(3);
      for (let i = 0; i < 2; i++) {
        await delay(WHILE);
        await world.lose(async () => {
          await server.kill();
          server.loseData();
        });
        await delay(WHILE / 2);
        await server.start();
        await world.expectProgress();
      }
    },

    'the server is paused': (world, { server }) => serverIsPaused(world, server),

    'connections are cut': connectionsAreCut,

    'something else is at the key': (world, backend) =>
      somethingElseIsAtTheKey(world, backend, async () => {
        const leases = await backend.leases();
        await world.lose(async () => {
          await leases.deleteOne({ _id: 'key' }, MAJORITY);
          const foreign = [{ $set: { name: 'somebody' } }];
          await leases.findOneAndUpdate({ _id: 'key' }, foreign, { ...MAJORITY, upsert: true });
        });
        return () => leases.deleteOne({ _id: 'key' }, MAJORITY);
      }),
  },

  faults: [
    (world, { server }) => pauseForRandomTime(world, server),
    async (_world, { server }) => {
      await server.kill();
      await server.start();
    },
    async (world, { server }) => {
      await world.lose(async () => {
        await server.kill();
        server.loseData();
      });
      await server.start();
    },
  ],
};
