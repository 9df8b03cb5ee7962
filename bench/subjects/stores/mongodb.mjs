// Leases over MongoDB, on the server that STRIPELOCK_MONGODB_URL names. Without one nothing is measured: what the stand-in
// of the tests does in a second says nothing of MongoDB.

import { loadStore } from '../../support/package.mjs';
import { lack, placeOf } from '../../support/servers.mjs';
import { alone, managed, subject } from './clients.mjs';

/**
 * @typedef {import('./clients.mjs').Client} Client
 * @typedef {import('./clients.mjs').Make} Make
 * @typedef {import('../index.mjs').Subject} Subject
 */

const url = process.env['STRIPELOCK_MONGODB_URL'];
const WRITING = { upsert: true, writeConcern: { w: /** @type {const} */ ('majority') } };

/** @type {import('../../support/servers.mjs').Server} */
export const mongodbServer = {
  name: 'mongodb',
  missing: url === undefined ? 'STRIPELOCK_MONGODB_URL' : undefined,
  start: async () => ({ place: String(url), stop: () => undefined }),
};

/**
 * @param {string} name
 * @param {readonly string[]} packages
 * @param {(collection: import('mongodb').Collection<any>, close: () => unknown) => Client | Promise<Client>} open
 */
const mongodbSubject = (name, packages, open) =>
  subject(
    name,
    ['mongodb', ...packages],
    () => lack(mongodbServer),
    async () => {
      const { MongoClient } = await import('mongodb');
      const client = await new MongoClient(placeOf('mongodb')).connect();
      return open(client.db('stripelock_bench').collection('leases'), () => client.close());
    },
  );

/**
 * @param {string} name
 * @param {Make} make
 */
const mongodbStore = (name, make) =>
  mongodbSubject(name, ['stripelock'], async (collection, close) => {
    const { mongodbLeaseStore } = await loadStore('mongodb');
    return make(mongodbLeaseStore({ collection }), close);
  });

/**
 * Two updates of a document by its `_id`, which a majority confirms.
 *
 * @type {Subject}
 */
const updates = {
  ...mongodbSubject('floor: two updates of a document', [], (collection, close) => ({
    acquire: (key) => collection.updateOne({ _id: `floor ${key}` }, { $inc: { count: 1 } }, WRITING),
    release: () => collection.updateOne({ _id: 'floor' }, { $inc: { count: 1 } }, WRITING),
    close,
  })),
  excludes: false,
};

export const mongodbSubjects = {
  updates,
  mongodb: mongodbStore('stripelock over MongoDB', managed),
  mongodbAlone: mongodbStore('stripelock over MongoDB, store alone', alone),
};
