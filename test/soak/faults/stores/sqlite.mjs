import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { LeaseManager } from 'stripelock';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { nextMillisecond } from '../../../support/next-millisecond.mjs';
import { DRIVER_ADVICE, onNode20, sqliteDrivers } from '../../../support/sqlite-drivers.mjs';
import { below } from '../../../workers/random.mjs';
import { WHILE } from '../clock.mjs';

class SqliteFile {
  #folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-faults-'));
  place = path.join(this.#folder, 'leases.db');
  /** @type {any} A database of whichever driver. */
  database = sqliteDrivers[0].open(this.place);

  connect() {
    return sqliteLeaseStore({ database: this.database });
  }

  /**
   * Runs as soon as the database is not locked.
   *
   * @param {() => void} change
   */
  async whileFree(change) {
    this.database.exec('PRAGMA busy_timeout = 2000');
    change();
    await delay(0);
  }

  forget() {
    return this.whileFree(() => {
      this.database.exec('BEGIN IMMEDIATE');
      for (const table of ['stripelock_leases', 'stripelock_leases_clock', 'stripelock_counter']) {
        const made = this.database.prepare('SELECT 1 FROM sqlite_master WHERE name = ?').get(table);
        if (made) this.database.exec(`DELETE FROM ${table}`);
      }
      nextMillisecond();
      this.database.exec('COMMIT');
    });
  }

  async leftovers() {
    // Each acquisition sweeps some of what has expired.
    const manager = new LeaseManager({ store: this.connect(), ttl: 60_000 });
    for (let i = 0; i < 10; i++) await manager.withLease('sweep', () => undefined);
    const held = (await this.connect().list()).map(({ key }) => `${key} is still held`);
    // The rows of leases that expired without a release stay for a day.
    const left = this.database.prepare('SELECT key FROM stripelock_leases WHERE abandoned IS NULL').all();
    return [...held, ...left.map((/** @type {{ key: string }} */ { key }) => `a row of ${key} was left`)];
  }

  /**
   * Locks the database for others.
   *
   * @param {number} milliseconds
   */
  async lockFor(milliseconds) {
    await this.whileFree(() => this.database.exec('BEGIN IMMEDIATE'));
    await delay(milliseconds);
    this.database.exec('COMMIT');
  }

  stop() {
    this.database.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/**
 * @param {any} database
 * @returns {import('../store-faults.mjs').Backdoor}
 */
function backdoor(database) {
  database.exec('CREATE TABLE IF NOT EXISTS stripelock_counter (key TEXT PRIMARY KEY, value INTEGER)');
  const remove = database.prepare('DELETE FROM stripelock_leases WHERE key = ?');
  const count = database.prepare(
    'INSERT INTO stripelock_counter VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET value = value + 1 RETURNING value',
  );
  return {
    remove: (key) => Promise.resolve(Number(remove.run(key).changes) > 0),
    count: (key) => Promise.resolve(BigInt(count.get(key).value)),
  };
}

/** @type {import('../store-faults.mjs').StoreFaults<SqliteFile>} */
export default {
  title: 'the SQLite store',
  missing: sqliteDrivers.length === 0 ? { what: 'driver of SQLite', advice: DRIVER_ADVICE } : undefined,
  // Node 20 cannot open a database by its path.
  reopens: !onNode20,

  async start() {
    const file = new SqliteFile();
    // The tables are made before anybody empties them.
    await file.connect().inspect('key');
    return file;
  },

  async open({ place, driver, timeout, background }) {
    const file = /** @type {string} */ (place);
    if (background) {
      const store = sqliteLeaseStore({ path: file, timeout });
      return { store, backdoor: () => backdoor(sqliteDrivers[0].open(file)), close: () => undefined };
    }
    const database = sqliteDrivers[driver % sqliteDrivers.length].open(file);
    return {
      store: sqliteLeaseStore({ database, timeout }),
      backdoor: () => backdoor(database),
      close: () => database.close(),
    };
  },

  scenarios: {
    async 'others have the database locked'(world, file) {
      await world.start(3, { timeout: 50 });
      for (const pause of [world.ttl / 4, 1.5 * world.ttl, 3 * world.ttl]) {
        await delay(WHILE / 2);
        await file.lockFor(pause);
        await world.expectProgress();
      }
    },
  },

  faults: [(world, file) => file.lockFor(below(world.random, 2 * world.ttl))],
};
