// Leases in a SQLite file.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { sqliteDrivers } from '../../../test/support/sqlite-drivers.mjs';
import { loadStore } from '../../support/package.mjs';
import { alone, managed, subject } from './clients.mjs';

/**
 * @typedef {import('./clients.mjs').Make} Make
 * @typedef {import('../index.mjs').Subject} Subject
 */

/** @type {Pick<Subject, 'create' | 'destroy'>} */
const folderOfFile = {
  create: () => mkdtempSync(path.join(os.tmpdir(), 'stripelock-bench-')),
  destroy: (folder) => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }),
};

/**
 * @param {string} name
 * @param {Make} make
 */
const sqliteSubject = (name, make) =>
  subject(
    name,
    ['stripelock'],
    () => (sqliteDrivers.length === 0 ? 'there is neither node:sqlite nor better-sqlite3 for it' : undefined),
    async (folder) => {
      const { sqliteLeaseStore } = await loadStore('sqlite');
      const database = sqliteDrivers[0].open(path.join(folder, 'leases.db'));
      database.exec('PRAGMA synchronous = NORMAL');
      return make(sqliteLeaseStore({ database }), () => database.close());
    },
    folderOfFile,
  );

export const sqliteSubjects = {
  sqlite: sqliteSubject('stripelock over SQLite', managed),
  sqliteAlone: sqliteSubject('stripelock over SQLite, store alone', alone),
};
