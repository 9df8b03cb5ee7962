import { setTimeout as delay } from 'node:timers/promises';
import { postgresLeaseStore } from 'stripelock/postgres';
import { postgresClients } from '../../../support/postgres-clients.mjs';
import { hasPostgres, POSTGRES_ADVICE, PostgresServer, queryAt } from '../../../support/postgres-server.mjs';
import { below } from '../../../workers/random.mjs';
import { WHILE } from '../clock.mjs';
import {
  connectionsAreCut,
  rowsAreLocked,
  serverIsKilled,
  serverIsPaused,
  sessionsAreTerminated,
  pauseForRandomTime,
} from '../server-scenarios.mjs';

/** @typedef {keyof typeof postgresClients} Library */

const libraries = /** @type {Library[]} */ (
  Object.keys(postgresClients).filter((name) => name !== 'pg-client')
);

const LEFT = 'SELECT key FROM stripelock_leases WHERE expires > clock_timestamp()';
const TERMINATE = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`;
const FORGET = 'TRUNCATE stripelock_leases, counter; UPDATE stripelock_leases_floor SET token = 0';
const COUNT = `INSERT INTO counter VALUES ($1, 1)
  ON CONFLICT (key) DO UPDATE SET value = counter.value + 1 RETURNING value`;
const REMOVE = 'DELETE FROM stripelock_leases WHERE key = $1 AND expires > clock_timestamp() RETURNING 1';

/** Milliseconds in which what a scenario prepares must be there, on a busy machine. */
const COMES_WITHIN = 20_000;

class PostgresBackend {
  /** @type {(() => unknown)[]} */
  #closing = [];

  /** @param {PostgresServer} server */
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
    const { client, close } = await postgresClients.pg(this.port, { connectsWithin: COMES_WITHIN });
    this.#closing.push(close);
    const store = postgresLeaseStore({ pool: client, timeout: COMES_WITHIN });
    this.#closing.push(() => store.close());
    return store;
  }

  /**
   * A standby, which continues copying from the port.
   *
   * @param {number} link
   */
  async standby(link) {
    const standby = await PostgresServer.startStandby(this.port, link);
    this.#closing.push(() => standby.stop());
    return standby;
  }

  forget() {
    return this.server.query(FORGET);
  }

  async leftovers() {
    return (await this.server.query(LEFT)).map(({ key }) => `${key} was left`);
  }

  /**
   * Locks all rows for others.
   *
   * @param {number} milliseconds
   */
  lockFor(milliseconds) {
    const seconds = milliseconds / 1000;
    return this.server.query(
      `BEGIN; SELECT FROM stripelock_leases FOR UPDATE; SELECT pg_sleep(${seconds}); COMMIT`,
    );
  }

  async stop() {
    for (const close of this.#closing.reverse()) await close();
  }
}

/**
 * @param {number} port
 * @returns {import('../store-faults.mjs').Backdoor}
 */
const backdoor = (port) => ({
  remove: async (key) => (await queryAt(port, REMOVE, [key])).length > 0,
  count: async (key) => BigInt(String((await queryAt(port, COUNT, [key]))[0].value)),
});

/**
 * The primary is killed in the middle of its work, when nothing that it has sent for a while has arrived at its standby,
 * which takes over.
 *
 * @param {import('../world.mjs').World} world
 * @param {PostgresBackend} backend
 * @param {boolean} synchronous Whether commits wait for the standby: then nothing is lost, and nothing excused.
 */
async function standbyTakesOver(world, backend, synchronous) {
  const primary = backend.server;
  const front = await world.proxyTo(primary.port);
  const link = await world.proxyTo(primary.port);
  const standby = await backend.standby(link.port);
  await primary.query(`ALTER SYSTEM SET synchronous_standby_names = '${synchronous ? '*' : ''}'`);
  await primary.query('SELECT pg_reload_conf()');
  await until(async () => {
    const [copying] = await primary.query('SELECT sync_state FROM pg_stat_replication');
    return copying?.sync_state === (synchronous ? 'sync' : 'async');
  }, 'the standby does not copy');
  await world.start(4, { port: front.port, steps: 10, step: 12, gap: 2 });
  await world.expectProgress();
  await delay(WHILE);
  link.delay = 3_600_000;
  await delay(2 * WHILE);
  const holder = await world.nextHolder(5 * WHILE);
  if (!holder && !synchronous) world.violations.push('the primary grants nothing, although it need not wait');
  const takeOver = async () => {
    await world.crash(primary);
    link.cut();
    await standby.query('SELECT pg_promote()');
    front.target = standby.port;
    front.cut();
  };
  await (synchronous ? takeOver() : world.lose(takeOver));
  backend.server = standby;
  await world.expectProgress();
  await delay(2 * WHILE);
  await world.expectProgress();
}

/**
 * @param {() => Promise<boolean>} holds
 * @param {string} otherwise
 */
async function until(holds, otherwise) {
  const end = performance.now() + COMES_WITHIN;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(otherwise);
    await delay(10);
  }
}

/** @type {import('../store-faults.mjs').StoreFaults<PostgresBackend>} */
export default {
  title: 'the PostgreSQL store',
  missing: hasPostgres ? undefined : { what: 'postgres', advice: POSTGRES_ADVICE },
  reopens: true,
  losesReleases: true,

  async start() {
    // Grants must outlive a kill although commits do not wait for the disk.
    const server = await PostgresServer.start(
      'synchronous_commit=off',
      'wal_writer_delay=10s',
      'wal_level=replica',
    );
    const backend = new PostgresBackend(server);
    await (await backend.connect()).inspect('key');
    await server.query('CREATE TABLE counter (key text PRIMARY KEY, value bigint)');
    return backend;
  },

  async open({ port, place, driver, timeout, background }) {
    const library = libraries[driver % libraries.length];
    const { client, close } = await postgresClients[library](port);
    const clientModule = new URL('../../../workers/postgres-client.mjs', import.meta.url);
    clientModule.searchParams.set('library', library);
    clientModule.searchParams.set('port', String(port));
    const store = postgresLeaseStore({ client, timeout, ...(background && { clientModule }) });
    return { store, close, backdoor: () => backdoor(/** @type {number} */ (place)) };
  },

  scenarios: {
    'the server is killed, and comes back with its data': (world, { server }) =>
      serverIsKilled(world, server),

    'the server is paused': (world, { server }) => serverIsPaused(world, server),

    'connections are cut': connectionsAreCut,

    'sessions are terminated': (world, { server }) =>
      sessionsAreTerminated(world, () => server.query(TERMINATE)),

    'somebody has the rows locked': rowsAreLocked,

    'a standby that lags takes over': (world, backend) => standbyTakesOver(world, backend, false),

    'a standby takes over for which commits wait': (world, backend) => standbyTakesOver(world, backend, true),
  },

  faults: [
    (_world, { server }) => server.query(TERMINATE),
    (world, backend) => backend.lockFor(below(world.random, 2 * world.ttl)),
    (world, { server }) => pauseForRandomTime(world, server),
    async (world, { server }) => {
      await world.crash(server);
      await server.start();
    },
  ],
};
