/**
 * @typedef {object} MysqlConnection
 * @property {object} client Of any of the libraries.
 * @property {() => unknown} close
 *
 * @callback ConnectMysql
 * @param {string} url
 * @param {{ max?: number, acquireTimeout?: number }} [options] How many connections a pool has; default 4. How many
 * milliseconds a pool of `mariadb` waits for a connection.
 * @returns {Promise<MysqlConnection>}
 */

/** Milliseconds: enough on a busy machine, where the default of `mariadb`, 1000, is not. */
const CONNECTS_WITHIN = 20_000;
const PATIENTLY = { connectTimeout: CONNECTS_WITHIN };

/** @param {string} url */
function addressIn(url) {
  const { hostname, port, username, password, pathname } = new URL(url);
  const name = decodeURIComponent(pathname.slice(1));
  const user = decodeURIComponent(username);
  return {
    host: hostname,
    port: Number(port || 3306),
    user,
    password: decodeURIComponent(password),
    database: name,
  };
}

/**
 * Every client library and form, each loaded only where it is used. The second pool does not count unchanged rows.
 *
 * @type {Record<'mysql2 pool' | 'mysql2/promise pool' | 'mysql2 connection' | 'mysql2/promise connection' | 'mariadb pool' | 'mariadb connection', ConnectMysql>}
 */
export const mysqlClients = {
  'mysql2 pool': async (url, { max = 4 } = {}) => {
    const { default: mysql } = await import('mysql2');
    const client = mysql.createPool({
      ...addressIn(url),
      connectionLimit: max,
      ...PATIENTLY,
    });
    return { client, close: () => client.promise().end() };
  },
  'mysql2/promise pool': async (url, { max = 4 } = {}) => {
    const { default: mysql } = await import('mysql2/promise');
    const options = { connectionLimit: max, ...PATIENTLY, flags: ['-FOUND_ROWS'] };
    const client = mysql.createPool({ ...addressIn(url), ...options });
    return { client, close: () => client.end() };
  },
  'mysql2 connection': async (url) => {
    const { default: mysql } = await import('mysql2');
    const client = mysql.createConnection({ ...addressIn(url), ...PATIENTLY });
    // If it is destroyed while it connects, it throws from its socket.
    await client.promise().connect();
    return { client, close: () => client.destroy() };
  },
  'mysql2/promise connection': async (url) => {
    const { default: mysql } = await import('mysql2/promise');
    const client = await mysql.createConnection({ ...addressIn(url), ...PATIENTLY, flags: ['-FOUND_ROWS'] });
    return { client, close: () => client.destroy() };
  },
  'mariadb pool': async (url, { max = 4, acquireTimeout = CONNECTS_WITHIN } = {}) => {
    const mariadb = await import('mariadb');
    const times = {
      ...PATIENTLY,
      acquireTimeout,
      initializationTimeout: CONNECTS_WITHIN,
    };
    const client = mariadb.createPool({ ...addressIn(url), connectionLimit: max, ...times });
    return { client, close: () => client.end() };
  },
  'mariadb connection': async (url) => {
    const mariadb = await import('mariadb');
    const client = await mariadb.createConnection({ ...addressIn(url), ...PATIENTLY });
    // `destroy` would kill a pending statement through another connection, and reject if the server ends meanwhile.
    return { client, close: () => client.end().catch(() => undefined) };
  },
};
