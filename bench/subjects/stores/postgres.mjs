// Leases over PostgreSQL, and the plain statements that they cannot be quicker than.

import { hasPostgres, PostgresServer } from '../../../test/support/postgres-server.mjs';
import { loadStore } from '../../support/package.mjs';
import { lack, placeOf } from '../../support/servers.mjs';
import { alone, managed, subject } from './clients.mjs';

/**
 * @typedef {import('./clients.mjs').Client} Client
 * @typedef {import('./clients.mjs').Make} Make
 * @typedef {import('../index.mjs').Subject} Subject
 */

/** @type {import('../../support/servers.mjs').Server} */
export const postgresServer = {
  name: 'postgres',
  missing: hasPostgres ? undefined : 'postgres',
  async start() {
    // As by default: commits wait for the disk.
    const server = await PostgresServer.start('fsync=on');
    await server.query(
      'CREATE TABLE floor (key text PRIMARY KEY, owner text, expires timestamptz) WITH (fillfactor = 70)',
    );
    return { place: server.url, stop: () => server.stop() };
  },
};

/**
 * @param {string} name
 * @param {readonly string[]} packages
 * @param {(pool: import('pg').Pool) => Client | Promise<Client>} open
 */
const postgresSubject = (name, packages, open) =>
  subject(
    name,
    ['pg', ...packages],
    () => lack(postgresServer),
    async () => {
      const { default: pg } = await import('pg');
      return open(new pg.Pool({ connectionString: placeOf('postgres'), max: 2 }));
    },
  );

/**
 * @param {string} name
 * @param {Make} make
 */
const postgresStore = (name, make) =>
  postgresSubject(name, ['stripelock'], async (pool) => {
    const { postgresLeaseStore } = await loadStore('postgres');
    return make(postgresLeaseStore({ pool, timeout: 60_000 }), () => pool.end());
  });

const INSERT = `INSERT INTO floor VALUES ($1, $2, now() + interval '30 seconds') ON CONFLICT (key)
  DO UPDATE SET owner = excluded.owner, expires = excluded.expires`;
const UPDATE = "UPDATE floor SET owner = '', expires = '-infinity' WHERE key = $1 AND owner = $2";

/**
 * What a lease without tokens, waiting or checks of time would cost.
 *
 * @param {string} name
 * @param {string} update
 * @returns {Subject}
 */
const plain = (name, update) => ({
  ...postgresSubject(name, [], (pool) => ({
    async acquire(key) {
      await pool.query({ name: 'insert', text: INSERT, values: [key, 'owner'] });
      return key;
    },
    release: (key) => pool.query({ name: 'update', text: update, values: [key, 'owner'] }),
    close: () => pool.end(),
  })),
  excludes: false,
});

const statements = plain('floor: a plain INSERT and UPDATE', UPDATE);

export const POSTGRES_MANAGER = 'stripelock over PostgreSQL';
export const STATEMENTS = statements.name;

export const postgresSubjects = {
  statements,
  /** As durable as a lease: the release of one need not outlast a crash. */
  quickStatements: plain(
    'floor: the same, the UPDATE does not wait for the disk',
    `${UPDATE} RETURNING set_config('synchronous_commit', 'off', true)`,
  ),
  postgres: postgresStore(POSTGRES_MANAGER, managed),
  postgresAlone: postgresStore('stripelock over PostgreSQL, store alone', alone),
};
