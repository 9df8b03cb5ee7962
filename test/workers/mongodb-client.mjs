// A clientModule. The driver and the server are in its URL, and the collection.
import { mongodbClients } from '../support/mongodb-clients.mjs';

export default async function make() {
  const { searchParams } = new URL(import.meta.url);
  const { client } = await mongodbClients[searchParams.get('driver')](searchParams.get('server'));
  const db = client.db('stripelock_test');
  const collection = searchParams.get('collection');
  return collection === null ? db : db.collection(collection);
}
