import { describe, expect, it } from 'vitest';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { FixedClock, leaseStoreContract } from 'stripelock/testing';
import type { TestDatabase } from '../support/sqlite.js';
import { reportMissing } from '../support/requirements.js';
import { DRIVER_ADVICE, missingDrivers, sqliteDrivers, temporaryFile } from '../support/sqlite.js';

// Tests run side by side, each with a separate file: they mostly wait for leases to expire.
const framework = { describe: describe.concurrent, it, expect };

for (const { name, open } of sqliteDrivers) {
  leaseStoreContract(framework, `SQLite store on ${name}, three connections`, () => {
    const { file, remove } = temporaryFile();
    const databases = [open(file), open(file), open(file)];
    const [store, ...peers] = databases.map((database) => sqliteLeaseStore({ database }));
    return {
      store: store!,
      peers,
      keepsInfo: true,
      reportsAbandonment: true,
      dispose() {
        for (const database of databases) database.close();
        remove();
      },
    };
  });

  leaseStoreContract(framework, `SQLite store on ${name}, in memory, on a fixed clock`, () => {
    const clock = new FixedClock(1000);
    const database = open(':memory:');
    return {
      store: sqliteLeaseStore({ database, clock, table: 'jobs' }),
      advance: (milliseconds) => clock.advance(milliseconds + 20),
      keepsInfo: true,
      reportsAbandonment: true,
      dispose: () => void database.close(),
    };
  });
}

/** The answer of `bun:sqlite` without a row. */
function withNulls(database: TestDatabase): TestDatabase {
  return {
    exec: (sql) => database.exec(sql),
    close: () => database.close(),
    prepare(sql) {
      const statement = database.prepare(sql);
      const get = statement.get.bind(statement);
      return Object.assign(statement, {
        get: (...parameters: unknown[]) => get(...parameters) ?? null,
      });
    },
  };
}

for (const { name, open } of sqliteDrivers) {
  leaseStoreContract(framework, `SQLite store on ${name} with null for no row`, () => {
    const clock = new FixedClock(1000);
    const database = withNulls(open(':memory:'));
    return {
      store: sqliteLeaseStore({ database, clock }),
      advance: (milliseconds) => clock.advance(milliseconds + 20),
      dispose: () => void database.close(),
    };
  });
}

for (const name of missingDrivers) reportMissing(`the SQLite store on ${name}`, name, DRIVER_ADVICE);
