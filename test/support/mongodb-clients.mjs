/** @typedef {import('mongodb').MongoClient} MongoClient */

/** Milliseconds: what a client needs to notice soon that a server is there again. */
const QUICK = { heartbeatFrequencyMS: 500, minHeartbeatFrequencyMS: 50, connectTimeoutMS: 3000 };

/**
 * @callback Connect
 * @param {string} url
 * @param {object} [options] Of the client.
 * @returns {Promise<{ client: MongoClient, close: () => Promise<void> }>} A client, which connects when it is used: if a server answers
 *   too late, an operation fails, and the next one tries again. What tests use of it is the same in both versions.
 */

/**
 * Both versions of the driver, each loaded only where it is used.
 *
 * @type {Record<'mongodb' | 'mongodb6', Connect>}
 */
export const mongodbClients = {
  mongodb: async (url, options) => clientOf((await import('mongodb')).MongoClient, url, options),
  mongodb6: async (url, options) => clientOf((await import('mongodb6')).MongoClient, url, options),
};

/**
 * @param {new (url: string, options: object) => any} Client Of either version.
 * @param {string} url
 * @param {object} [options]
 */
function clientOf(Client, url, options = {}) {
  const client = new Client(url, { ...QUICK, ...options });
  return { client, close: () => client.close() };
}
