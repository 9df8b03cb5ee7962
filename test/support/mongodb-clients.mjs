/**
 * @callback Connect
 * @param {string} url
 * @param {object} [options] Of the client.
 * @returns {Promise<{ client: any, close: () => Promise<void> }>} A client that is connected.
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
 * @param {new (url: string, options: object) => any} MongoClient
 * @param {string} url
 * @param {object} [options]
 */
async function connect(MongoClient, url, options = {}) {
  const client = new MongoClient(url, { heartbeatFrequencyMS: 500, minHeartbeatFrequencyMS: 50, ...options });
  await client.connect();
  return { client, close: () => client.close() };
}
