import { mysqlLeaseStore } from 'stripelock/mysql';
import { mysqlClients } from '../../../support/mysql-clients.mjs';
import { hasMysql, MYSQL_ADVICE, MysqlServer, queryAt } from '../../../support/mysql-server.mjs';
import { below } from '../../../workers/random.mjs';
import {
  connectionsAreCut,
  rowsAreLocked,
  serverIsKilled,
  serverIsPaused,
  sessionsAreTerminated,
  pauseForRandomTime,
} from '../server-scenarios.mjs';

/** @typedef {keyof typeof mysqlClients} Library */

/** Of the environment, or all that connect again after a loss. */
const libraries = /** @type {Library[]} */ (
  process.env['STRIPELOCK_MYSQL_CLIENT']?.split(',') ??
    Object.keys(mysqlClients).filter((name) => name.endsWith('pool'))
);

const CLOCK = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
const LEFT = `SELECT CAST(name AS CHAR) AS name FROM stripelock_leases WHERE expires > ${CLOCK}`;
// In one transaction, unlike TRUNCATE.
const FORGET = `START TRANSACTION; DELETE FROM stripelock_leases; DELETE FROM counter;
  UPDATE stripelock_leases_floor SET token = 0; COMMIT`;
const COUNT = `INSERT INTO counter VALUES (?, LAST_INSERT_ID(1))
  ON DUPLICATE KEY UPDATE value = LAST_INSERT_ID(value + 1)`;
const REMOVE = `DELETE FROM stripelock_leases WHERE name = ? AND expires > ${CLOCK}`;

/** Milliseconds in which what a scenario prepares must be there, on a busy machine. */
const COMES_WITHIN = 20_000;

class MysqlBackend {
  /** @type {(() => unknown)[]} */
  #closing = [];

  /** @param {MysqlServer} server */
  constructor(server) {
    this.server = server;
    this.#closing.push(() => server.stop());
  }

  get port() {
    return this.server.port;
  }

  /** The server behind all proxies. */
  get place() {
    return this.server.port;
  }

  async connect() {
    const { client, close } = await mysqlClients['mysql2 pool'](this.server.url);
    this.#closing.push(close);
    const store = mysqlLeaseStore({ pool: client, timeout: COMES_WITHIN });
    this.#closing.push(() => store.close());
    return store;
  }

  async forget() {
    for (;;) {
      try {
        return await this.server.query(FORGET);
      } catch (error) {
        // It locks rows in another order than leases do.
        if (/** @type {any} */ (error).errno !== 1213) throw error;
      }
    }
  }

  async leftovers() {
    const rows = /** @type {{ name: string }[]} */ (await this.server.query(LEFT));
    return rows.map(({ name }) => `${name} was left`);
  }

  /**
   * Locks all rows for others.
   *
   * @param {number} milliseconds
   */
  async lockFor(milliseconds) {
    const lock = `START TRANSACTION; SELECT name FROM stripelock_leases FOR UPDATE; DO SLEEP(${milliseconds / 1000}); COMMIT`;
    await this.server.query(lock).catch((error) => {
      if (error.errno !== 1213) throw error;
    });
  }

  async stop() {
    for (const close of this.#closing.reverse()) await Promise.resolve(close()).catch(() => undefined);
  }
}

/**
 * @param {number} port
 * @returns {import('../store-faults.mjs').Backdoor}
 */
const backdoor = (port) => ({
  remove: async (key) => (await queryAt(port, REMOVE, [Buffer.from(key)])).affectedRows > 0,
  count: async (key) => BigInt((await queryAt(port, COUNT, [key])).insertId),
});

/** @type {import('../store-faults.mjs').StoreFaults<MysqlBackend>} */
export default {
  title: 'the MySQL store',
  missing: hasMysql ? undefined : { what: 'mariadbd', advice: MYSQL_ADVICE },
  reopens: true,

  async start() {
    const server = await MysqlServer.start();
    const backend = new MysqlBackend(server);
    await (await backend.connect()).inspect('key');
    await server.query('CREATE TABLE counter (k VARBINARY(100) PRIMARY KEY, value BIGINT NOT NULL)');
    await server.query('INSERT INTO stripelock_leases_floor VALUES (1, 0)');
    return backend;
  },

  async open({ port, place, driver, timeout, background }) {
    const library = /** @type {Library} */ (libraries[driver % libraries.length]);
    const url = `mysql://test:test@127.0.0.1:${port}/test`;
    const { client, close } = await mysqlClients[library](url);
    const clientModule = new URL('../../../workers/mysql-client.mjs', import.meta.url);
    clientModule.searchParams.set('library', library);
    clientModule.searchParams.set('server', url);
    const store = mysqlLeaseStore({ client, timeout, ...(background && { clientModule }) });
    return { store, close, backdoor: () => backdoor(/** @type {number} */ (place)) };
  },

  scenarios: {
    'the server is killed, and comes back with its data': (world, { server }) =>
      serverIsKilled(world, server),

    'the server is paused': (world, { server }) => serverIsPaused(world, server),

    'connections are cut': connectionsAreCut,

    'sessions are terminated': (world, { server }) => sessionsAreTerminated(world, () => server.terminate()),

    'somebody has the rows locked': rowsAreLocked,
  },

  faults: [
    (_world, { server }) => server.terminate(),
    (world, backend) => backend.lockFor(below(world.random, 2 * world.ttl)),
    (world, { server }) => pauseForRandomTime(world, server),
    async (_world, { server }) => {
      await server.kill();
      await server.start();
    },
  ],
};
