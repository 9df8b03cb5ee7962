/**
 * @typedef {object} PostgresConnection
 * @property {object} client Of any of the libraries.
 * @property {() => unknown} close
 *
 * @callback ConnectPostgres
 * @param {number} port Of this machine.
 * @param {{ max?: number, connectsWithin?: number }} [options] How many connections a pool has, default 4; and how long it
 *   takes one to stand at most, in milliseconds.
 * @returns {Promise<PostgresConnection>}
 */

const at = (/** @type {number} */ port) => ({
  host: '127.0.0.1',
  port,
  user: 'test',
  database: 'postgres',
});

/**
 * Every client library, each loaded only where it is used.
 *
 * @type {Record<'pg' | 'postgres' | 'pg-client', ConnectPostgres>}
 */
export const postgresClients = {
  pg: async (port, { max = 4, connectsWithin = 5000 } = {}) => {
    const { default: pg } = await import('pg');
    const client = new pg.Pool({ ...at(port), max, connectionTimeoutMillis: connectsWithin });
    client.on('error', () => undefined);
    return { client, close: () => client.end() };
  },
  postgres: async (port, { max = 4 } = {}) => {
    const { default: postgres } = await import('postgres');
    // What it asks for types is a promise that nobody handles, and a session that ends then would end the process.
    const types = { fetch_types: false };
    const times = { backoff: () => 0.05, connect_timeout: 5 };
    const options = { ...at(port), ...types, ...times, max, onnotice: () => undefined };
    const client = postgres(/** @type {any} */ (options));
    return { client, close: () => client.end({ timeout: 0 }) };
  },
  'pg-client': async (port) => {
    const { default: pg } = await import('pg');
    const client = new pg.Client(at(port));
    client.on('error', () => undefined);
    await client.connect();
    return { client, close: () => client.end() };
  },
};

/** A database in this process. */
export async function openPgLite() {
  const { PGlite } = await import('@electric-sql/pglite');
  const client = await PGlite.create();
  return { client, close: () => client.close() };
}
