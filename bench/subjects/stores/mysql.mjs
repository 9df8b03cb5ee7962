// Leases over MariaDB, through mysql2 and mariadb, and the plain statements that they cannot be quicker than.

import { hasMysql, MysqlServer } from '../../../test/support/mysql-server.mjs';
import { loadStore } from '../../support/package.mjs';
import { lack, placeOf } from '../../support/servers.mjs';
import { alone, managed, subject } from './clients.mjs';

/**
 * @typedef {import('./clients.mjs').Client} Client
 * @typedef {import('./clients.mjs').Make} Make
 * @typedef {import('../index.mjs').Subject} Subject
 * @typedef {{ query(sql: string, values?: unknown[]): Promise<unknown>, end(): Promise<unknown> }} Pool
 */

/** @type {import('../../support/servers.mjs').Server} */
export const mysqlServer = {
  name: 'mysql',
  missing: hasMysql ? undefined : 'mariadbd',
  async start() {
    // Commits wait for the disk, which is the default.
    const server = await MysqlServer.start('--innodb-flush-log-at-trx-commit=1');
    await server.query(
      'CREATE TABLE floor (name VARBINARY(512) PRIMARY KEY, owner VARBINARY(255), expires DATETIME(6))',
    );
    return { place: server.url, stop: () => server.stop() };
  },
};

/** @type {Record<'mysql2' | 'mariadb', () => Promise<Pool>>} A pool of each library. */
const pools = {
  mysql2: async () => {
    const { default: mysql } = await import('mysql2/promise');
    return mysql.createPool({ uri: placeOf('mysql'), connectionLimit: 2 });
  },
  mariadb: async () => {
    const { createPool } = await import('mariadb');
    const { hostname: host, port, username: user, password, pathname } = new URL(placeOf('mysql'));
    const database = pathname.slice(1);
    return createPool({ host, port: Number(port), user, password, database, connectionLimit: 2 });
  },
};

/**
 * @param {string} name
 * @param {keyof typeof pools} library
 * @param {readonly string[]} packages
 * @param {(pool: Pool) => Client | Promise<Client>} open
 */
const mysqlSubject = (name, library, packages, open) =>
  subject(
    name,
    // The tables are made by mysql2.
    ['mysql2', library, ...packages],
    () => lack(mysqlServer),
    async () => open(await pools[library]()),
  );

/**
 * @param {string} name
 * @param {keyof typeof pools} library
 * @param {Make} make
 */
const mysqlStore = (name, library, make) =>
  mysqlSubject(name, library, ['stripelock'], async (pool) => {
    const { mysqlLeaseStore } = await loadStore('mysql');
    return make(mysqlLeaseStore({ pool, timeout: 60_000 }), () => pool.end());
  });

const LATER = 'UTC_TIMESTAMP(6) + INTERVAL 30 SECOND';
const INSERT = `INSERT INTO floor VALUES (?, 'owner', ${LATER})
  ON DUPLICATE KEY UPDATE owner = 'owner', expires = ${LATER}`;
const UPDATE = "UPDATE floor SET owner = '', expires = NULL WHERE name = ? AND owner = 'owner'";

/**
 * The cost of a lease without tokens, waiting or checks of time.
 *
 * @param {string} name
 * @param {keyof typeof pools} library
 * @returns {Subject}
 */
const plain = (name, library) => ({
  ...mysqlSubject(name, library, [], (pool) => ({
    async acquire(key) {
      await pool.query(INSERT, [key]);
      return key;
    },
    release: (key) => pool.query(UPDATE, [key]),
    close: () => pool.end(),
  })),
  excludes: false,
});

export const MYSQL2_MANAGER = 'stripelock over MySQL, mysql2';
export const MARIADB_MANAGER = 'stripelock over MySQL, mariadb';
export const MYSQL2_STATEMENTS = 'floor: a plain INSERT and UPDATE by mysql2';
export const MARIADB_STATEMENTS = 'floor: a plain INSERT and UPDATE by mariadb';

export const mysqlSubjects = {
  mysql2Statements: plain(MYSQL2_STATEMENTS, 'mysql2'),
  mariadbStatements: plain(MARIADB_STATEMENTS, 'mariadb'),
  mysql2: mysqlStore(MYSQL2_MANAGER, 'mysql2', managed),
  mariadb: mysqlStore(MARIADB_MANAGER, 'mariadb', managed),
  mysqlAlone: mysqlStore('stripelock over MySQL, store alone', 'mysql2', alone),
};
