/** @typedef {import('mongodb').MongoClient} MongoClient */

/** Milliseconds: what a client needs to notice soon that a server is there again. */
const QUICK = { heartbeatFrequencyMS: 500, minHeartbeatFrequencyMS: 50, connectTimeoutMS: 3000 };

/**
 * @callback Connect
 * @param {string} url
 * @param {object} [options] Of the client.
 * @returns {Promise<{ client: MongoClient, close: () => Promise<void> }>} A client that is connected. What tests use of it is
 *   the same in both versions.
 */

/**
 * Both versions of the driver, each loaded only where it is used.
 *
 * @type {Record<'mongodb' | 'mongodb6', Connect>}
 */
export const mongodbClients = {
  mongodb: async (url, options) => connect((await import('mongodb')).MongoClient, url, options),
  mongodb6: async (url, options) => connect((await import('mongodb6')).MongoClient, url, options),
};

/**
 * @param {new (url: string, options: object) => any} Client Of either version.
 * @param {string} url
 * @param {object} [options]
 */
async function connect(Client, url, options = {}) {
  const client = new Client(url, { ...QUICK, ...options });
  await client.connect();
  return { client, close: () => client.close() };
}
