import { MongoClient } from 'mongodb';
import { mongodbLeaseStore } from 'stripelock/mongodb';

export const defaultUrl = 'mongodb://127.0.0.1:27017';

const writeConcern = { w: 'majority' };

export async function open({ url, prefix }) {
  const client = new MongoClient(url, { serverSelectionTimeoutMS: 2000, useBigInt64: true });
  await client.connect().catch((error) => {
    throw new Error(`no MongoDB server at ${url}: ${error.message}`);
  });
  const db = client.db('stripelock_example');
  const nights = db.collection(`${prefix}journal`);
  const make = [{ $set: { token: { $ifNull: ['$token', 0n] } } }];
  const journal = {
    has: async (night) => (await nights.findOne({ _id: String(night) }))?.author !== undefined,
    noteCrash: async () => {
      const before = await nights.findOneAndUpdate({ _id: 'crash' }, make, {
        upsert: true,
        returnDocument: 'before',
        writeConcern,
      });
      return before === null;
    },
    // The document must exist before the first conditional write.
    async write(night, author, token) {
      const _id = String(night);
      await nights.updateOne({ _id }, make, { upsert: true, writeConcern });
      const isNotStale = { _id, $expr: { $lte: ['$token', token] } };
      const entry = [{ $set: { author: { $literal: author }, token } }];
      return (await nights.updateOne(isNotStale, entry, { writeConcern })).matchedCount === 1;
    },
    async read() {
      const found = await nights.find({}).toArray();
      await nights.deleteMany({}, { writeConcern });
      const entries = found.filter(({ author }) => author !== undefined);
      return entries
        .map(({ _id, author, token }) => ({ night: Number(_id), author, token }))
        .sort((a, b) => a.night - b.night);
    },
  };
  const store = mongodbLeaseStore({ collection: db.collection(`${prefix}leases`) });
  const close = async () => {
    await store.close();
    await client.close();
  };
  return { store, journal, close };
}
