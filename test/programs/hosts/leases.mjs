// Leases: in memory, and in SQLite and PostgreSQL where the host has a client.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { FencingGate, LeaseManager, MemoryLeaseStore } from 'stripelock';
import { postgresLeaseStore } from 'stripelock/postgres';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { FixedClock, leaseStoreContract } from 'stripelock/testing';
import { check, codeOf, patience, start, until } from './support.mjs';

export async function leases() {
  const store = new MemoryLeaseStore();
  const manager = new LeaseManager({ store, ttl: patience, renew: { every: 50 } });
  const lease = await manager.acquire('job');
  const { message } = start('lease', { store: store.handle });
  check((await message()) === 'refused', 'two threads hold one lease');
  const first = lease.expiresAt;
  await until(() => lease.expiresAt > first, 'the lease is not renewed');
  lease.assertHeld();
  const gate = new FencingGate();
  gate.admit('job', lease.token);
  await lease.release();
  const token = /** @type {bigint} */ (await message());
  check(token > lease.token, `the token ${token} is not above ${lease.token}`);
  check((await message()) === 'closed', 'the other thread did not give it back');
  gate.admit('job', token);
  check(
    (await codeOf(() => gate.admit('job', lease.token))) === 'ERR_STALE_TOKEN',
    'a stale token is admitted',
  );
  await manager.close();
}

/**
 * Runs the contract of lease stores, which is written for test runners, a test at a time.
 *
 * @param {string} name
 * @param {import('stripelock/testing').MakeStore} makeStore
 */
async function contract(name, makeStore) {
  /** @type {[string, () => unknown][]} */
  const tests = [];
  const describe = (/** @type {string} */ _name, /** @type {() => void} */ body) => body();
  const it = (/** @type {string} */ sentence, /** @type {() => unknown} */ test) =>
    void tests.push([sentence, test]);
  leaseStoreContract({ describe, it }, name, makeStore);
  check(tests.length > 20, `only ${tests.length} tests`);
  for (const [sentence, test] of tests) {
    try {
      await test();
    } catch (error) {
      throw new Error(`${sentence}: ${/** @type {Error} */ (error).message}`, { cause: error });
    }
  }
}

export function memoryContract() {
  return contract('memory', () => {
    const clock = new FixedClock();
    return { store: new MemoryLeaseStore({ clock }), advance: (milliseconds) => clock.advance(milliseconds) };
  });
}

/**
 * Three connections to one file.
 *
 * @param {string} name
 * @param {(file: string) => any} open
 */
function sqliteContract(name, open) {
  return contract(name, () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-host-'));
    const databases = [1, 2, 3].map(() => open(path.join(folder, 'leases.db')));
    // No check survives a loss of power, and a busy disk may take longer than a lease lasts.
    for (const database of databases) database.exec('PRAGMA synchronous = OFF');
    const [store, ...peers] = databases.map((database) => sqliteLeaseStore({ database }));
    return {
      store: /** @type {import('stripelock').LeaseStore} */ (store),
      peers,
      dispose() {
        for (const database of databases) database.close();
        rmSync(folder, { recursive: true, force: true });
      },
    };
  });
}

export async function nodeSqlite() {
  const store = sqliteLeaseStore({ path: ':memory:' });
  check((await store.tryAcquire('a', 'b', 1000)) !== undefined, 'no lease on a database in memory');
  await store.close?.();
  // The types of the oldest supported Node do not have it.
  const { DatabaseSync } = /** @type {any} */ (process.getBuiltinModule('node:sqlite'));
  await sqliteContract('node:sqlite', (file) => new DatabaseSync(file));
}

export async function bunSqlite() {
  const name = 'bun:sqlite';
  const { Database } = await import(name);
  await sqliteContract(name, (file) => new Database(file));
}

/** On the pool itself, which listens, and on its function for statements alone. */
export async function bunPostgres() {
  const name = 'bun';
  const { SQL } = await import(name);
  const url = process.env['STRIPELOCK_POSTGRES_URL'];
  check(url !== undefined, 'there is no PostgreSQL: put postgres and initdb on the PATH');
  let tables = 0;
  const clients = [
    (/** @type {any} */ sql) => sql,
    (/** @type {any} */ sql) => ({
      query: (/** @type {string} */ text, /** @type {unknown[]} */ values) => sql.unsafe(text, values),
    }),
  ];
  for (const clientOf of clients) {
    await contract("Bun's sql", async () => {
      const table = `test_${++tables}`;
      const pools = [1, 2, 3].map(() => new SQL(url, { max: 2 }));
      const stores = pools.map((pool) =>
        postgresLeaseStore({ client: clientOf(pool), table, timeout: 30_000 }),
      );
      const [store, ...peers] = /** @type {[typeof stores[0], ...typeof stores]} */ (stores);
      // The tables are made before the time counts.
      await store.inspect('key');
      return {
        store,
        peers,
        keepsInfo: true,
        async dispose() {
          for (const store of stores) await store.close();
          for (const pool of pools) await pool.end();
        },
      };
    });
    await refusesTransactions(new SQL(url, { max: 1 }), clientOf, `test_${++tables}`);
  }
}

/**
 * @param {any} pool
 * @param {(sql: any) => object} clientOf
 * @param {string} table
 */
async function refusesTransactions(pool, clientOf, table) {
  const codes = [];
  const acquire = (/** @type {unknown} */ sql) =>
    codeOf(() =>
      postgresLeaseStore({ client: clientOf(sql), table, timeout: 30_000 }).tryAcquire('a', 'b', 60_000),
    );
  await postgresLeaseStore({ client: clientOf(pool), table, timeout: 30_000 }).inspect('key');
  await pool.begin(async (/** @type {unknown} */ transaction) => codes.push(await acquire(transaction)));
  const reserved = await pool.reserve();
  await reserved.unsafe('BEGIN');
  codes.push(await acquire(reserved));
  await reserved.unsafe('ROLLBACK');
  reserved.release();
  await pool.unsafe('BEGIN');
  codes.push(await acquire(pool));
  await pool.end();
  check(
    codes.every((code) => code === 'ERR_LEASE_IN_TRANSACTION'),
    `in transactions: ${codes.join()}`,
  );
}
